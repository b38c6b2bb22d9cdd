"""
The log on Redis or Valkey: each call is one script of `lua/`, or a plain read.

`docs/log.md` tells the rules; `lua/append.lua` describes every key and record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, cast

from mulligan.errors import EventUnreadable, PayloadKeyMissing, StoreUnfit
from mulligan.events.envelope import Envelope
from mulligan.events.keys import (
    Keys,
    partition_of,
    partitions_key,
    payload_keys_key,
    settings_key,
    workers_keys,
)
from mulligan.events.payload import digest_of
from mulligan.events.payload_keys import PayloadKeys
from mulligan.events.prepared import check_lease, prepare
from mulligan.events.redis_append import (
    append_args,
    append_keys,
    appended,
    begins_work,
    goes_on_when_full,
    is_rekeyed,
    stored_envelope,
    stored_row,
)
from mulligan.events.redis_connection import (
    Server,
    answers,
    check_client,
    connected,
    disconnect_idle,
    place_of,
)
from mulligan.events.redis_each import events_of_each
from mulligan.events.redis_feed import RedisFeed
from mulligan.events.redis_fitness import Room, check_server
from mulligan.events.redis_retiring import RedisRetiring
from mulligan.events.redis_scripts import Scripts
from mulligan.events.redis_streams import Streams
from mulligan.events.schedules import PREFIX, is_schedule
from mulligan.events.store import (
    MAX_CLAIMS,
    Append,
    Appended,
    Claimed,
    Held,
    NotClaimed,
    ReadRun,
    Renewed,
    Row,
    Swept,
)
from mulligan.events.tasks import parse_task
from mulligan.events.vault import Vault, open_value

SCAN_PAGE = 500
"""Entries a SCAN step: few enough not to hold up the server."""


class RedisEventStore(RedisFeed, RedisRetiring):
    """
    The `EventStore` on a Redis (7.0 or newer) or Valkey server.

    Args:
        server: a URL (`redis://`, `rediss://`, `unix:///path?db=0`, `redis+cluster://`), or a
            client of your own whose own retries are off. A client stays open after `close`.
        partitions: how many partitions a server that has none yet shall have (1 if not given); an
            error if it has another number: runs would be looked for in the wrong place.
        script_heads: off only for imitations that can't read the first line of a script.
        payload_keys: with them, what runs contain is encrypted (docs/encryption.md).

    Raises:
        StoreUnfit: the URL or the client can't be used.
    """

    def __init__(
        self,
        server: str | Server,
        *,
        partitions: int | None = None,
        script_heads: bool = True,
        payload_keys: PayloadKeys | None = None,
    ) -> None:
        self._owns_client = isinstance(server, str)
        self._client = connected(server) if isinstance(server, str) else server
        check_client(self._client)
        self._place = place_of(self._client)
        self._scripts = Scripts(self._client, heads=script_heads)
        self._streams = Streams(self._client, self._place)
        self._room = Room(self._client, self._place)
        self._asked_partitions = partitions
        self._partitions: list[Keys] = []
        self._lock = Lock()
        self.vault = Vault(payload_keys, self._data_keys, self.use_payload_key)

    # --- Writing ---------------------------------------------------------------------------------

    def append(self, append: Append) -> Appended:
        """See `EventStore.append`."""
        held = self.vault.for_append(append)
        prepared = prepare(append, held)
        when_full = goes_on_when_full(append.writer)
        keys = self._keys(append.run)
        with answers(self._place):
            if begins_work(append.writer):
                self._room.require()
            reply = self._scripts.call(
                "append",
                append_keys(keys, prepared),
                append_args(prepared),
                when_full=when_full,
            )
        if is_rekeyed(reply):  # of two that found none, one made the run's key
            self.vault.drop(append.run)
            self.vault.key_of(append.run)
            return self.append(append)
        done = appended(prepared, reply, partial(self.vault.same_request, append))
        if held is not None and not done.repeated:
            self.vault.stands(held)
        return done

    def claim(self, run: str, task: str, token: str, lease_ms: int) -> Claimed | NotClaimed:
        """See `EventStore.claim`."""
        check_lease(run, task, token)
        keys = self._keys(run)
        with answers(self._place):
            reply = self._scripts.call(
                "claim", [keys.due, keys.tasks, keys.runs], [run, task, token, lease_ms]
            )
        if reply[0] != b"OK":
            return NotClaimed(reply[0].decode())
        _, version, phase, op, inbox, lost, now_ms = reply
        return Claimed(
            task=task,
            token=token,
            version=version,
            phase=phase.decode(),
            op=op.decode(),
            inbox=inbox,
            claims=lost,
            now_ms=now_ms,
            poison=lost >= MAX_CLAIMS,
        )

    def renew(self, held: Sequence[Held], lease_ms: int) -> Mapping[str, Renewed | None]:
        """See `EventStore.renew`."""
        by_partition: defaultdict[int, list[Held]] = defaultdict(list)
        for lease in held:
            by_partition[self._keys(lease.run).partition].append(lease)
        renewed: dict[str, Renewed | None] = {}
        for partition, leases in by_partition.items():
            renewed |= self._renew(self._partition(partition), leases, lease_ms)
        return renewed

    def _renew(self, keys: Keys, held: list[Held], lease_ms: int) -> Mapping[str, Renewed | None]:
        leases = [part for lease in held for part in (lease.run, lease.task, lease.token)]
        with answers(self._place):
            reply = self._scripts.call(
                "renew", [keys.due, keys.tasks, keys.runs], [lease_ms, *leases]
            )
        return {
            lease.task: None if inbox < 0 else Renewed(inbox, phase.decode())
            for lease, inbox, phase in zip(held, reply[::2], reply[1::2], strict=True)
        }

    def give_back(self, held: Held) -> bool:
        """See `EventStore.give_back`."""
        keys = self._keys(held.run)
        with answers(self._place):
            reply = self._scripts.call("give_back", [keys.due, keys.tasks], [held.task, held.token])
        return bool(reply)

    def sweep(self, *, limit: int = 500, resend_ms: int = 2_000) -> Swept:
        """See `EventStore.sweep`; `limit` counts for each partition."""
        tasks: list[str] = []
        next_in_ms: list[int] = []
        now_ms: list[int] = []
        for keys in self._all():
            with answers(self._place):
                wait_ms, time_ms, *due = self._scripts.call(
                    "sweep", [keys.due, keys.tasks], [limit, resend_ms]
                )
            tasks += [task.decode() for task in due]
            next_in_ms += [wait_ms] if wait_ms >= 0 else []
            now_ms.append(time_ms)
        return Swept(tuple(tasks), min(next_in_ms, default=None), tuple(now_ms))

    def audit(self) -> list[str]:
        """See `EventStore.audit`."""
        repaired: list[str] = []
        for keys in self._all():
            for tasks in self._scan(keys.tasks):
                repaired += self._audit(keys, tasks=list(tasks))
            for runs in self._scan(keys.runs):
                repaired += self._audit(keys, runs=list(runs))
        return repaired

    def _audit(
        self, keys: Keys, *, tasks: Sequence[bytes] = (), runs: Sequence[bytes] = ()
    ) -> list[str]:
        with answers(self._place):
            repaired = self._scripts.call(
                "audit", [keys.due, keys.tasks, keys.runs], [len(tasks), *tasks, *runs]
            )
        return [task.decode() for task in repaired]

    # --- Reading a run ---------------------------------------------------------------------------

    def read(self, run: str, after: int = 0, *, limit: int | None = None) -> list[Envelope]:
        """See `EventStore.read`."""
        stream = self._keys(run).run(run)
        return [
            stored_envelope(run, entry_id, fields, self.vault.key_named)
            for entry_id, fields in self._streams.entries(stream, f"{after}-0", limit)
        ]

    def read_each(self, after: Mapping[str, int]) -> Iterator[ReadRun]:
        """See `EventStore.read_each`."""
        streams = [(self._keys(run).run(run), version) for run, version in after.items()]
        return zip(after, events_of_each(self._streams, streams), strict=True)

    def follow(self, run: str, after: int, wait_ms: int) -> list[Envelope]:
        """See `EventStore.follow`."""
        self._streams.wait(self._keys(run).run(run), f"{after}-0", wait_ms)
        return self.read(run, after)

    def row(self, run: str) -> Row | None:
        """See `EventStore.row`."""
        with answers(self._place):
            text = cast("bytes | None", self._client.hget(self._keys(run).runs, run))
        return None if text is None else stored_row(text)

    def runs(self) -> Iterator[tuple[str, Row]]:
        """See `EventStore.runs`."""
        for keys in self._all():
            for page in self._scan(keys.runs):
                for name, text in page.items():
                    run = name.decode()
                    if not is_schedule(run):
                        yield run, stored_row(text)

    def schedules(self) -> Iterator[str]:
        """See `EventStore.schedules`. Each has a task, and of those there are fewer than runs."""
        for keys in self._all():
            for page in self._scan(keys.tasks, match=f"{PREFIX}*"):
                for task in page:
                    yield parse_task(task.decode())[0]

    def payload(self, run: str, digest: str) -> bytes:
        """See `EventStore.payload`."""
        key = self.vault.key_of(run) if self.vault.keys is not None else None
        if key is not None:
            with answers(self._place):
                sealed: Any = self._client.get(self._keys(run).payload(run, key.name(digest)))
            if sealed is not None:
                return open_value(key, digest, sealed)
        with answers(self._place):
            data = cast("bytes | None", self._client.get(self._keys(run).payload(run, digest)))
        if data is None:
            self.vault.key_of(run)  # it may be there by another name, which only its key tells
        if data is None or digest_of(data) != digest:
            found = "is missing" if data is None else "is not what its digest says"
            raise EventUnreadable(f"run {run!r}: the payload {digest} {found}")
        return data

    def sealed(self, task: str) -> bytes | None:
        """See `EventStore.sealed`."""
        run, _, _ = parse_task(task)
        with answers(self._place):
            data = cast("bytes | None", self._client.get(self._keys(run).sealed(task)))
        return None if data is None else self.vault.opened(run, data, f"candidate of {task}")

    def snapshot(self, run: str) -> bytes | None:
        """See `EventStore.snapshot`."""
        with answers(self._place):
            data = cast("bytes | None", self._client.hget(self._keys(run).snapshot(run), "d"))
        try:
            return None if data is None else self.vault.opened(run, data, "snapshot")
        except EventUnreadable:  # as good as none: the events tell what is wrong
            return None

    def keep_snapshot(
        self, run: str, version: int, data: bytes, *, gap_events: int, ttl_ms: int
    ) -> bool:
        """See `EventStore.keep_snapshot`."""
        keys = self._keys(run)
        data = self.vault.sealed(run, data, "snapshot")
        with answers(self._place):
            reply = self._scripts.call(
                "keep_snapshot",
                [keys.runs, keys.snapshot(run)],
                [run, version, gap_events, ttl_ms, data],
            )
        return bool(reply)

    def partitions(self) -> int:
        """See `EventStore.partitions`."""
        return len(self._all())

    # --- Workers ---------------------------------------------------------------------------------

    def announce(self, worker: str, card: bytes, ttl_ms: int) -> dict[str, bytes]:
        """See `EventStore.announce`."""
        with answers(self._place):
            reply = self._scripts.call("announce", workers_keys(), [worker, ttl_ms, card])
        return {name.decode(): text for name, text in zip(reply[::2], reply[1::2], strict=True)}

    def workers(self) -> dict[str, bytes]:
        """See `EventStore.workers`."""
        return self.announce("", b"", 0)

    # --- Settings of workflows -------------------------------------------------------------------

    def kept_settings(self, workflow: str) -> bytes | None:
        """See `EventStore.kept_settings`."""
        with answers(self._place):
            return cast("bytes | None", self._client.get(settings_key(workflow)))

    def keep_settings(self, workflow: str, data: bytes | None) -> None:
        """See `EventStore.keep_settings`."""
        with answers(self._place):
            if data is None:
                self._client.delete(settings_key(workflow))
            else:
                self._client.set(settings_key(workflow), data)

    # --- Keys to what runs contain ---------------------------------------------------------------

    def data_keys(self) -> Iterator[tuple[str, bytes]]:
        """See `EventStore.data_keys`."""
        for keys in self._all():
            for page in self._scan(keys.data_keys):
                for run, record in page.items():
                    yield run.decode(), record

    def replace_data_keys(self, changes: Sequence[tuple[str, bytes, bytes]]) -> int:
        """See `EventStore.replace_data_keys`."""
        changed = 0
        for keys in self._all():
            own = [one for one in changes if self._keys(one[0]).partition == keys.partition]
            if own:
                with answers(self._place):
                    changed += self._scripts.call(
                        "replace_data_keys", [keys.data_keys], [part for one in own for part in one]
                    )
        return changed

    def payload_keys_in_use(self) -> dict[str, str]:
        """See `EventStore.payload_keys_in_use`."""
        with answers(self._place):
            found = cast("dict[bytes, bytes]", self._client.hgetall(payload_keys_key()))
        return {name.decode(): fingerprint.decode() for name, fingerprint in found.items()}

    def retire_payload_key(self, name: str) -> None:
        """See `EventStore.retire_payload_key`."""
        with answers(self._place):
            self._client.hdel(payload_keys_key(), name)

    def use_payload_key(self, name: str, fingerprint: str) -> None:
        """See `EventStore.use_payload_key`."""
        with answers(self._place):
            self._client.execute_command("HSETNX", payload_keys_key(), name, fingerprint)
        if self.payload_keys_in_use().get(name, fingerprint) != fingerprint:
            raise PayloadKeyMissing("this server's runs", name, other=True)

    def _data_keys(self, runs: Sequence[str]) -> list[bytes | None]:
        found: dict[str, bytes | None] = {}
        for keys in self._all():
            own = [run for run in runs if self._keys(run).partition == keys.partition]
            if own:
                with answers(self._place):
                    records: Any = self._client.hmget(keys.data_keys, own)
                found |= zip(own, records, strict=True)
        return [found[run] for run in runs]

    # --- The server ------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """See `EventStore.check`."""
        with answers(self._place):
            warnings = check_server(self._client, self._place)
        self.vault.look(self.payload_keys_in_use())
        return warnings

    def close(self) -> None:
        """See `EventStore.close`; readers that wait return within a second."""
        self._streams.close()
        if self._owns_client:
            disconnect_idle(self._client)

    def _scan(self, key: str, match: str | None = None) -> Iterator[dict[bytes, bytes]]:
        cursor = 0
        while True:
            with answers(self._place):
                scanned = cast(Any, self._client.hscan(key, cursor, match, count=SCAN_PAGE))
            cursor, page = scanned
            if page:
                yield page
            if cursor == 0:
                return

    def _keys(self, run: str) -> Keys:
        partitions = self._all()
        return partitions[partition_of(run, len(partitions))]

    def _partition(self, partition: int) -> Keys:
        return self._all()[partition]

    def _all(self) -> list[Keys]:
        if not self._partitions:
            with self._lock, answers(self._place):
                self._partitions = [Keys(number) for number in range(self._fixed_partitions())]
        return self._partitions

    def _fixed_partitions(self) -> int:
        stored = self._client.get(partitions_key())
        if stored is None:
            self._client.set(partitions_key(), self._asked_partitions or 1, nx=True)
            stored = self._client.get(partitions_key())
        count = int(cast(bytes, stored))
        if self._asked_partitions not in (None, count):
            raise StoreUnfit(
                f"the server at {self._place} has {count} partitions, not "
                f"{self._asked_partitions}; their number is fixed with the first run: "
                "leave the setting out, or start on an empty server"
            )
        return count
