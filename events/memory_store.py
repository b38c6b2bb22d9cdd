"""
The log in memory: for tests of workflows, and as the plain model of the scripts in `lua/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from msgspec.structs import replace

from mulligan.errors import EventUnreadable, PayloadKeyMissing
from mulligan.events.archive import StoredEvent
from mulligan.events.codec import Outline, decode, outlines_of
from mulligan.events.envelope import Envelope
from mulligan.events.keys import partition_of
from mulligan.events.memory_feed import MemoryFeed
from mulligan.events.memory_records import (
    MemoryRun,
    MemoryTask,
    claimed,
    is_left_over,
    judge_fact,
    judge_person,
    move_run,
    not_yet,
    wake,
)
from mulligan.events.payload_keys import PayloadKeys
from mulligan.events.prepared import RELEASES, Prepared, check_lease, prepare, releases_own
from mulligan.events.refusals import Status, refusal
from mulligan.events.schedules import is_schedule
from mulligan.events.store import (
    Append,
    Appended,
    AsFact,
    AsNew,
    ByTask,
    ByVersion,
    Claimed,
    FeedEntry,
    Held,
    Move,
    NotClaimed,
    ReadRun,
    Renewed,
    Retired,
    Retirement,
    Row,
    Swept,
)
from mulligan.events.tasks import parse_task, run_task
from mulligan.events.vault import KeptKey, Vault, open_value


class MemoryEventStore(MemoryFeed):
    """
    The `EventStore` without a server. Nothing is kept; nothing is shared between processes.

    Args:
        now_ms: the clock that leases and timers go by, in milliseconds; a test moves it as it
            likes. Waiting for events (`follow`, `feed`) goes by real time.
        partitions: how many partitions the runs are spread over.
        payload_keys: with them, what runs contain is encrypted, as on a server.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        partitions: int = 1,
        payload_keys: PayloadKeys | None = None,
    ) -> None:
        super().__init__(now_ms, partitions)
        self._data_keys: dict[str, bytes] = {}
        self._payload_keys: dict[str, str] = {}
        self.vault = Vault(
            payload_keys, lambda runs: [*map(self._data_keys.get, runs)], self.use_payload_key
        )
        self._runs: dict[str, MemoryRun] = {}
        self._tasks: dict[str, MemoryTask] = {}
        self._snapshots: dict[str, tuple[int, int, bytes]] = {}
        """version, the millisecond until which it is kept, data"""
        self._sealed: dict[str, tuple[int, bytes]] = {}
        """by task: the millisecond until which it is kept, candidate"""
        self._settings: dict[str, bytes] = {}
        self._workers: dict[str, tuple[int, bytes]] = {}

    # --- append ----------------------------------------------------------------------------------

    def append(self, append: Append) -> Appended:
        """See `EventStore.append`."""
        held = self.vault.for_append(append)
        prepared = prepare(append, held)
        with self._changed:
            now_ms = self._now_ms()
            run = self._runs.get(append.run)
            status = self._judge(append, run)
            version = run.version if run else 0
            if status == "OK" and self._keeps(append.run, held):
                version = self._write(prepared, now_ms)
                self._changed.notify_all()
                events = prepared.envelopes(version, now_ms)
                return Appended(version, now_ms, events, taken=self._taken(append, now_ms))
            if status == "DUP":
                taken = self._taken(append, now_ms)
                return Appended(version, now_ms, (), repeated=True, taken=taken)
        if status == "OK":  # another made the run's data key
            self.vault.drop(append.run)
            self.vault.key_of(append.run)
            return self.append(append)
        if status == "EXISTS" and run and self.vault.same_request(append, run.digest):
            return Appended(version, now_ms, (), repeated=True)
        raise refusal(status, append, version, self._inbox(append))

    def _keeps(self, run: str, held: KeptKey | None) -> bool:
        """Have a run's data key be the one that is held, if it has no other."""
        if held is None:
            return True
        if self._data_keys.setdefault(run, held.record).partition(b"|")[0].decode() != held.key.id:
            return False
        self.vault.stands(held)
        return True

    def _inbox(self, append: Append) -> int:
        task = self._tasks.get(append.writer.task) if isinstance(append.writer, ByTask) else None
        return task.inbox if task else 0

    def _taken(self, append: Append, now_ms: int) -> Claimed | None:
        """The lease that an append has taken along, now or before."""
        if append.take is None:
            return None
        name, run = append.take.task, self._runs[append.run]
        task = self._tasks.get(name)
        if task is None or (task.op, task.token) != (append.op, append.take.token):
            return None
        return replace(claimed(name, task, run, now_ms), phase="open")

    def _judge(self, append: Append, run: MemoryRun | None) -> Status:
        if run is None:
            return "OK" if isinstance(append.writer, AsNew) else "GONE"
        match append.writer:
            case AsNew():
                return "EXISTS"
            case ByTask() as writer:
                return self._judge_task(append, writer, run)
            case ByVersion(version):
                return judge_person(append, version, run)
            case AsFact() as writer:
                return judge_fact(append, writer, run)
            case _:
                assert_never(append.writer)

    def _judge_task(self, append: Append, writer: ByTask, run: MemoryRun) -> Status:
        task = self._tasks.get(writer.task)
        if append.op in (task and task.op, run.closing_op) or self._taken(append, 0):
            return "DUP"
        if run.ended or (run.phase == "cancelling" and writer.task != run_task(append.run)):
            return "CLOSED"
        if task is None or not writer.token or task.token != writer.token:
            return "FENCED"
        if task.op != writer.previous_op:
            return "STALE"
        if task.inbox != writer.inbox and (writer.intent or releases_own(append)):
            return "DIRTY"
        if append.as_of is not None and not self._still_theirs(append, writer, run):
            return "DIRTY"
        return "OK"

    def _still_theirs(self, append: Append, writer: ByTask, run: MemoryRun) -> bool:
        """
        Whether what was decided for the run's own task and for the taken one is theirs to do now.
        """
        own = run_task(append.run)
        own_record = self._tasks.get(own)
        waits = writer.task == own or (own_record is not None and own_record.state == "waiting")
        other = self._tasks.get(append.take.task) if append.take is not None else None
        free = other is None or other.state == "waiting"
        return run.version == append.as_of and waits and free

    def _write(self, prepared: Prepared, now_ms: int) -> int:
        append = prepared.append
        run = self._runs.setdefault(append.run, MemoryRun(prepared.digest))
        run.events += [(now_ms, raw) for raw in prepared.raw]
        if append.begins_anew:
            run.dropped = run.version - len(prepared.raw)
            run.events[: run.dropped] = [(0, b"")] * run.dropped
        run.payloads.update(prepared.payloads)
        self._sealed.update({s.task: (now_ms + s.ttl_ms, s.data) for s in prepared.sealed})
        for task in append.discarded:
            self._sealed.pop(task, None)
        if prepared.raw and not is_schedule(append.run):
            self._refer(append.run, run.version, len(prepared.raw))
        move_run(append, run)
        if isinstance(append.writer, ByTask):
            self._tasks[append.writer.task].op = append.op
        take = append.take if run.phase == "open" else None
        for move in append.moves:
            takes = take is not None and move.task == take.task
            offered = self._move(move, now_ms)
            if take is not None and takes and offered is not None:
                offered.state, offered.token, offered.op = "leased", take.token, append.op
                offered.due_ms, offered.claims = now_ms + take.lease_ms, offered.claims + 1
        return run.version

    def _refer(self, run: str, version: int, count: int) -> None:
        feed = self._feeds[partition_of(run, len(self._feeds))]
        number = int(self.feed_end(partition_of(run, len(self._feeds))).partition("-")[0]) + 1
        feed.append(FeedEntry(f"{number}-0", run, version, count))

    def _move(self, move: Move, now_ms: int) -> MemoryTask | None:
        """Move a task; the one that is now ready for whoever comes first, if it is."""
        task = self._tasks.get(move.task)
        due_ms = now_ms + move.delay_ms
        if move.to in RELEASES and task:
            task.token, task.claims = "", 0
        match move.to:
            case "ready" if task is None:
                task = self._tasks[move.task] = MemoryTask("ready", due_ms)
                return task
            case "ready" | "wake":
                if task:
                    wake(task, due_ms)
                return task if task and task.state == "ready" else None
            case "keep":
                self._tasks[move.task].state, self._tasks[move.task].due_ms = "leased", due_ms
            case "timer":
                self._tasks[move.task].state, self._tasks[move.task].due_ms = "timer", due_ms
            case "wait":
                self._tasks[move.task].state, self._tasks[move.task].due_ms = "waiting", None
            case "end":
                self._tasks.pop(move.task)
            case _:
                assert_never(move.to)
        return None

    def _is_archived(self, run: str) -> bool:
        return run in self._runs and self._runs[run].phase == "archived"

    # --- Leases ----------------------------------------------------------------------------------

    def claim(self, run: str, task: str, token: str, lease_ms: int) -> Claimed | NotClaimed:
        """See `EventStore.claim`."""
        check_lease(run, task, token)
        with self._changed:
            now_ms = self._now_ms()
            found, of = self._tasks.get(task), self._runs.get(run)
            if found is None or of is None or is_left_over(task, found, of, run, now_ms):
                self._tasks.pop(task, None)
                return NotClaimed("GONE")
            repeated = found.state == "leased" and found.token == token
            if not repeated and (reason := not_yet(found, now_ms)):
                return NotClaimed(reason)
            found.claims += not repeated
            found.state, found.token, found.due_ms = "leased", token, now_ms + lease_ms
            return claimed(task, found, of, now_ms)

    def renew(self, held: Sequence[Held], lease_ms: int) -> Mapping[str, Renewed | None]:
        """See `EventStore.renew`."""
        with self._changed:
            return {lease.task: self._renew(lease, lease_ms) for lease in held}

    def _renew(self, held: Held, lease_ms: int) -> Renewed | None:
        task, run = self._holding(held), self._runs.get(held.run)
        if task is None or run is None:
            return None
        task.state, task.due_ms = "leased", self._now_ms() + lease_ms
        return Renewed(task.inbox, run.phase)

    def give_back(self, held: Held) -> bool:
        """See `EventStore.give_back`."""
        with self._changed:
            task = self._holding(held)
            if task is None:
                return False
            task.state, task.due_ms, task.token, task.claims = "ready", self._now_ms(), "", 0
            return True

    def _holding(self, held: Held) -> MemoryTask | None:
        task = self._tasks.get(held.task)
        return task if task and held.token and task.token == held.token else None

    def sweep(self, *, limit: int = 500, resend_ms: int = 2_000) -> Swept:
        """See `EventStore.sweep`; `limit` counts for each partition."""
        with self._changed:
            now_ms = self._now_ms()
            swept = [
                name
                for partition in range(len(self._feeds))
                for name in self._due_in(partition, now_ms)[:limit]
            ]
            for name in swept:
                self._tasks[name].state, self._tasks[name].due_ms = "ready", now_ms + resend_ms
            ahead = [t.due_ms - now_ms for t in self._tasks.values() if t.due_ms is not None]
            times = (now_ms,) * len(self._feeds)
            return Swept(tuple(swept), max(0, min(ahead)) if ahead else None, times)

    def _due_in(self, partition: int, now_ms: int) -> list[str]:
        due = [
            (task.due_ms, name)
            for name, task in self._tasks.items()
            if task.due_ms is not None
            and task.due_ms <= now_ms
            and partition_of(parse_task(name)[0], len(self._feeds)) == partition
        ]
        return [name for _, name in sorted(due)]

    def audit(self) -> list[str]:
        """See `EventStore.audit`; here a task can't lose its due entry."""
        with self._changed:
            stranded = [
                run_task(name)
                for name, run in self._runs.items()
                if not run.ended and run_task(name) not in self._tasks
            ]
            self._tasks.update({task: MemoryTask("ready", self._now_ms()) for task in stranded})
            return stranded

    # --- Reads -----------------------------------------------------------------------------------

    def read(self, run: str, after: int = 0, *, limit: int | None = None) -> list[Envelope]:
        """See `EventStore.read`."""
        with self._changed:
            events = self._runs[run].events if run in self._runs else []
            after = max(after, self._runs[run].dropped if run in self._runs else 0)
            stop = None if limit is None else after + limit
            found = list(enumerate(events, start=1))[after:stop]
        key_named = self.vault.key_named
        return [decode(run, version, time_ms, raw, key_named) for version, (time_ms, raw) in found]

    def read_each(self, after: Mapping[str, int]) -> Iterator[ReadRun]:
        """See `EventStore.read_each`."""
        for run, known in after.items():
            with self._changed:
                events = list(self._runs[run].events if run in self._runs else [])
            numbered = [(version, *event) for version, event in enumerate(events, start=1)]
            yield run, numbered[known:]

    def follow(self, run: str, after: int, wait_ms: int) -> list[Envelope]:
        """See `EventStore.follow`."""
        with self._changed:
            self._changed.wait_for(
                lambda: run in self._runs and self._runs[run].version > after, wait_ms / 1000
            )
            return self.read(run, after)

    def row(self, run: str) -> Row | None:
        """See `EventStore.row`."""
        with self._changed:
            found = self._runs.get(run)
            return Row(found.version, found.phase, found.digest) if found else None

    def runs(self) -> Iterator[tuple[str, Row]]:
        """See `EventStore.runs`."""
        for name in list(self._runs):
            row = self.row(name)
            if row and not is_schedule(name):
                yield name, row

    def schedules(self) -> Iterator[str]:
        """See `EventStore.schedules`."""
        yield from filter(is_schedule, list(self._runs))

    def payload(self, run: str, digest: str) -> bytes:
        """See `EventStore.payload`."""
        key = self.vault.key_of(run)
        name = key.name(digest) if key is not None else digest
        with self._changed:
            kept = self._runs[run].payloads if run in self._runs else {}
            plain, found = kept.get(digest), kept.get(name)
        if plain is None and found is None:
            raise EventUnreadable(f"run {run!r}: the payload {digest} is missing")
        if plain is None and key is not None and found is not None:
            return open_value(key, digest, found)
        return plain or b""

    def stored(self, run: str) -> list[StoredEvent]:
        """See `EventStore.stored`."""
        with self._changed:
            events = self._runs[run].events if run in self._runs else []
            return [StoredEvent(time_ms, raw) for time_ms, raw in events]

    def outlines(self, run: str) -> list[Outline]:
        """See `EventStore.outlines`."""
        return outlines_of(self.stored(run))

    def retire(self, retired: Retired) -> Retirement:
        """See `EventStore.retire`."""
        with self._changed:
            run = self._runs.get(retired.run)
            refused = self._why_not(retired, run)
            if run is None or refused is not None:
                return refused or "GONE"
            run.phase, run.retired = "archived", run.version
            run.events, run.payloads = [], {}
            self._snapshots.pop(retired.run, None)
            for task in retired.tasks:
                self._tasks.pop(task, None)
            self._drop_row(retired.run, retired.projections)
            return "OK"

    def _why_not(self, retired: Retired, run: MemoryRun | None) -> Retirement | None:
        if run is None or run.phase not in ("closed", "archived"):
            return "GONE" if run is None else "OPEN"
        if run.phase == "archived":
            return "OK"
        last = run.events[-1][1] if run.events else b""
        if (run.version, last) != (retired.version, retired.last_event):
            return "MOVED"
        tasks = [self._tasks[task] for task in retired.tasks if task in self._tasks]
        held = any(task.state == "leased" and not_yet(task, self._now_ms()) for task in tasks)
        return "HELD" if held else None

    def sealed(self, task: str) -> bytes | None:
        """See `EventStore.sealed`."""
        with self._changed:
            until_ms, data = self._sealed.get(task, (0, b""))
            run, _, _ = parse_task(task)
            if until_ms <= self._now_ms():
                return None
        return self.vault.opened(run, data, f"candidate of {task}")

    def snapshot(self, run: str) -> bytes | None:
        """See `EventStore.snapshot`."""
        with self._changed:
            _, until_ms, data = self._snapshots.get(run, (0, 0, b""))
            if until_ms <= self._now_ms():
                return None
        try:
            return self.vault.opened(run, data, "snapshot")
        except EventUnreadable:
            return None

    def keep_snapshot(
        self, run: str, version: int, data: bytes, *, gap_events: int, ttl_ms: int
    ) -> bool:
        """See `EventStore.keep_snapshot`."""
        with self._changed:
            found = self._runs.get(run)
            if found is None or found.phase == "archived" or version > found.version:
                return False
            kept, until_ms, _ = self._snapshots.get(run, (0, 0, b""))
            live = until_ms > self._now_ms() and kept <= found.version
            if live and kept + gap_events > version:
                return False
            sealed = self.vault.sealed(run, data, "snapshot")
            self._snapshots[run] = (version, self._now_ms() + ttl_ms, sealed)
            return True

    # --- Keys to what runs contain ---------------------------------------------------------------

    def data_keys(self) -> Iterator[tuple[str, bytes]]:
        """See `EventStore.data_keys`."""
        yield from list(self._data_keys.items())

    def replace_data_keys(self, changes: Sequence[tuple[str, bytes, bytes]]) -> int:
        """See `EventStore.replace_data_keys`."""
        with self._changed:
            still = [(run, new) for run, old, new in changes if self._data_keys.get(run) == old]
            self._data_keys.update(still)
            return len(still)

    def payload_keys_in_use(self) -> dict[str, str]:
        """See `EventStore.payload_keys_in_use`."""
        return dict(self._payload_keys)

    def retire_payload_key(self, name: str) -> None:
        """See `EventStore.retire_payload_key`."""
        self._payload_keys.pop(name, None)

    def use_payload_key(self, name: str, fingerprint: str) -> None:
        """See `EventStore.use_payload_key`."""
        if self._payload_keys.setdefault(name, fingerprint) != fingerprint:
            raise PayloadKeyMissing("this log's runs", name, other=True)

    def partitions(self) -> int:
        """See `EventStore.partitions`."""
        return len(self._feeds)

    def announce(self, worker: str, card: bytes, ttl_ms: int) -> dict[str, bytes]:
        """See `EventStore.announce`."""
        with self._changed:
            self._workers[worker] = (self._now_ms() + ttl_ms, card)
            return self.workers()

    def workers(self) -> dict[str, bytes]:
        """See `EventStore.workers`."""
        with self._changed:
            now_ms = self._now_ms()
            self._workers = {of: one for of, one in self._workers.items() if one[0] > now_ms}
            return {worker: card for worker, (_, card) in self._workers.items()}

    def kept_settings(self, workflow: str) -> bytes | None:
        """See `EventStore.kept_settings`."""
        with self._changed:
            return self._settings.get(workflow)

    def keep_settings(self, workflow: str, data: bytes | None) -> None:
        """See `EventStore.keep_settings`."""
        with self._changed:
            if data is None:
                self._settings.pop(workflow, None)
            else:
                self._settings[workflow] = data

    def check(self) -> list[str]:
        """See `EventStore.check`."""
        self.vault.look(self._payload_keys)
        return ["the log is in memory: it ends with this process"]

    def close(self) -> None:
        """See `EventStore.close`."""
