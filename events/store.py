"""
The port to the log: one way to write, leases on tasks, and reads.

What each call promises stands here; `../tests/contract/` holds every implementation to it. The
log's rules, with the failures that each closes, are told in `docs/log.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from mulligan.errors import EventUnreadable
from mulligan.events.archive import StoredEvent
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.sealed import Sealed

if TYPE_CHECKING:
    from mulligan.events.codec import Outline
    from mulligan.events.vault import Vault

MAX_EVENTS_PER_APPEND = 1_000
"""Lua's `unpack` fails at 8,000, and 50,000 block the server for half a second."""

MAX_EVENTS_OF_NEW_RUN = 10_000
"""A run may begin as a copy of a long one: once, by a person, for 60 ms of the server's time."""

MAX_CLAIMS = 5
"""Leases of one task lost in a row before it counts as poison."""

RunPhase = Literal["open", "cancelling", "closed", "archived"]


# --- Who writes ----------------------------------------------------------------------------------


class AsNew(msgspec.Struct, frozen=True):
    """The first append of a run. `digest` is of what makes two requests the same request."""

    digest: str


class ByTask(msgspec.Struct, frozen=True):
    """
    The holder of a task's lease. `previous_op` is the task's last operation as the holder knows it,
    `inbox` the count of wake-ups it has read. An `intent` (something in the world follows) and a
    release are refused when the inbox has moved on.
    """

    task: str
    token: str
    previous_op: str
    inbox: int
    intent: bool = False


class ByVersion(msgspec.Struct, frozen=True):
    """A person who has seen the run at `version`."""

    version: int


class AsFact(msgspec.Struct, frozen=True):
    """
    Something that is true whoever says it, about `key` (`cancel`, a request id, a call id). A
    `receipt` (what a running tool came to) is taken even when the run has ended.
    """

    key: str
    receipt: bool = False


Writer = AsNew | ByTask | ByVersion | AsFact


# --- What happens to tasks -----------------------------------------------------------------------


class Move(msgspec.Struct, frozen=True):
    """
    What an append does to a task: `ready` creates it (one that exists is woken), `wake` tells it
    that something arrived (without effect if there is no such task), `keep` renews the writer's own
    lease for `delay_ms`; `timer` (due after `delay_ms`), `wait` and `end` release the writer's own.
    """

    task: str
    to: Literal["ready", "wake", "keep", "timer", "wait", "end"]
    delay_ms: int = 0


class Take(msgspec.Struct, frozen=True):
    """
    The lease on `task`, for `lease_ms` under a fresh `token`, for a writer that lets go of its own:
    as if it had claimed what its append makes ready or wakes. What somebody holds is not given.
    """

    task: str
    token: str
    lease_ms: int


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """
    One atomic step of a run: events, and what they do to tasks and to the run's phase. A task that
    was woken for nothing releases itself with no event at all.

    `sealed` are candidates to keep for a while beside the log; `discarded` names tasks whose
    candidates are dropped.

    One that `begins_anew` tells all that its stream has come to, and drops what stood before its
    events. It is for streams that never end (`events/schedules.py`); a run's is never shortened.

    `op` is minted once per decision (a fresh random id) and used again for the same bytes only: a
    repeated call is recognised by it. An append that ends its writer's task takes the memory of it
    along (unless it closes the run, or takes a lease): repeated, it is fenced, or closed out while
    the run cancels; whoever needs to know reads the log.

    With `as_of`, what the run's own task has to decide, and the task that is taken, is decided in
    the same append: it is refused unless the run is at that version, its own task waits (or is the
    writer's), and the other is new or waits.
    """

    run: str
    op: str
    writer: Writer
    events: tuple[NewEvent, ...]
    moves: tuple[Move, ...] = ()
    phase: Literal["cancelling", "closed"] | None = None
    causation: str | None = None
    correlation: str | None = None
    sealed: tuple[Sealed, ...] = ()
    discarded: tuple[str, ...] = ()
    take: Take | None = None
    as_of: int | None = None
    begins_anew: bool = False


class Appended(msgspec.Struct, frozen=True):
    """
    What became of an append: the run's version after it, the server's time, the events as stored
    (large payloads moved out; empty for a repeated call, whose events the log already holds), and
    the lease that was taken along.
    """

    version: int
    now_ms: int
    events: tuple[Envelope, ...]
    repeated: bool = False
    taken: Claimed | None = None


# --- Leases --------------------------------------------------------------------------------------


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """
    A lease on a task: the run's version and phase, the task's last operation, its inbox, how many
    leases in a row were lost before this one, the server's time; `poison` beyond `MAX_CLAIMS`.
    """

    task: str
    token: str
    version: int
    phase: RunPhase
    op: str
    inbox: int
    claims: int
    now_ms: int
    poison: bool = False


class NotClaimed(msgspec.Struct, frozen=True):
    """Nothing to do: the task or its run is gone, it waits, another works it, or it is early."""

    reason: Literal["GONE", "IDLE", "BUSY", "EARLY"]


class Held(msgspec.Struct, frozen=True):
    """A lease to renew."""

    run: str
    task: str
    token: str


class Renewed(msgspec.Struct, frozen=True):
    """A lease that goes on: the task's inbox and the run's phase now."""

    inbox: int
    phase: RunPhase


class Swept(msgspec.Struct, frozen=True):
    """
    Tasks that are due, the server's milliseconds until the next one is (None: none), and the
    server's time at each partition.
    """

    tasks: tuple[str, ...]
    next_in_ms: int | None
    now_ms: tuple[int, ...]


# --- Reads ---------------------------------------------------------------------------------------


class Row(msgspec.Struct, frozen=True):
    """A run in the index: its version, its phase, and the digest it was requested with."""

    version: int
    phase: RunPhase
    digest: str


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """
    A run to take off the server: its last event as it is kept elsewhere, and what belongs to it
    here: the digests of its large values, the tasks it may have left, the projections with a row.
    """

    run: str
    version: int
    last_event: bytes
    payloads: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    projections: tuple[str, ...] = ()


Retirement = Literal["OK", "GONE", "OPEN", "MOVED", "HELD"]
"""Retired, now or before; or why not: no such run, it has not ended, it has other events than those
that are kept, or a worker still holds a task of it and may hand in a receipt."""


RawEvent: TypeAlias = tuple[int, int, bytes]
"""An event as it is stored, with its place: version, the server's milliseconds, bytes."""


ReadRun: TypeAlias = tuple[str, "list[RawEvent] | EventUnreadable"]


class FeedEntry(msgspec.Struct, frozen=True):
    """A reference to an append: events `version - count + 1` to `version` of `run`."""

    id: str
    run: str
    version: int
    count: int


class EventStore(Protocol):
    """
    The log. Safe for use by threads. Any call may raise `StoreUnavailable`: no answer came; what
    it asked for may have been done, and asking again with the same arguments is safe.

    With payload keys it keeps what runs contain encrypted, and hands it out as it was handed in
    (`docs/encryption.md`). What can't be read for want of a key raises `PayloadKeyMissing`.
    """

    vault: Vault
    """Encrypts and decrypts; for who keeps what is stored elsewhere."""

    def append(self, append: Append) -> Appended:
        """
        Add events, all or none. The repeated-call check comes first, then:

        Raises:
            RunExists: `AsNew`, and the run exists with another digest (with the same digest the
                call counts as repeated).
            RunClosed: the run has ended, or is cancelling and the writer is not its own task.
            LeaseFenced: `ByTask`, and the task is held under another token, or is gone.
            OperationStale: `ByTask`, and the task's last operation is another.
            InboxMoved: `ByTask`, intent or release, and the inbox has moved on; or not `as_of`.
            VersionConflict: `ByVersion`, and the run is at another version.
            RunUnknown: there is no such run.
            StoreFull: the server has no memory for new work (renewals and receipts go on).
            ValueError: neither events nor moves, more than `MAX_EVENTS_PER_APPEND` events
                (`AsNew`: `MAX_EVENTS_OF_NEW_RUN`), or a
                release of a task that is not the writer's own, or a lease taken by one who keeps
                its own, or on a task that the append does not move.

        When memory is full, outcomes, releases and facts are still taken; what begins work (a new
        run, an intent, a person's append) is not.
        """
        ...

    def claim(self, run: str, task: str, token: str, lease_ms: int) -> Claimed | NotClaimed:
        """Take the lease on a task that is ready, or whose lease or timer has run out."""
        ...

    def renew(self, held: Sequence[Held], lease_ms: int) -> Mapping[str, Renewed | None]:
        """Renew leases, by task; None: lost. One call a partition, however many there are."""
        ...

    def give_back(self, held: Held) -> bool:
        """Hand a lease back unworked, to be taken at once; whether it was still held."""
        ...

    def sweep(self, *, limit: int = 500, resend_ms: int = 2_000) -> Swept:
        """
        Make ready what is due: leases that ran out, timers that fired. Each is answered once per
        `resend_ms` until someone claims it. A token is kept: its holder may append until then.
        """
        ...

    def audit(self) -> list[str]:
        """
        Repair what should not be, and return the tasks repaired: one that is ready, timed or leased
        without a due entry is due now; a run that goes on without a task of its own gets one. Slow:
        it looks at every task and every run.
        """
        ...

    def read(self, run: str, after: int = 0, *, limit: int | None = None) -> list[Envelope]:
        """The run's events above version `after`, in order; empty if there are none."""
        ...

    def read_each(self, after: Mapping[str, int]) -> Iterator[ReadRun]:
        """
        The events of many runs, each above the version named beside it: run after run in their
        order, also those that have none. They are undecoded, and what stands in the way of one
        run's (`EventUnreadable`) is told in their place, so that it holds up no other's.
        """
        ...

    def follow(self, run: str, after: int, wait_ms: int) -> list[Envelope]:
        """As `read`, but wait up to `wait_ms` for the first one."""
        ...

    def row(self, run: str) -> Row | None:
        """The run's place in the index, or None."""
        ...

    def runs(self) -> Iterator[tuple[str, Row]]:
        """Every run of the index, in no order; each at least once while it stays."""
        ...

    def schedules(self) -> Iterator[str]:
        """The streams of all schedules (`events/schedules.py`), each at least once, in no order."""
        ...

    def payload(self, run: str, digest: str) -> bytes:
        """
        The canonical JSON of a large value.

        Raises:
            EventUnreadable: it is not there, or not what its digest says.
        """
        ...

    def stored(self, run: str) -> list[StoredEvent]:
        """The run's events as they are stored, in order, for who keeps them elsewhere."""
        ...

    def outlines(self, run: str) -> list[Outline]:
        """What the run's events tell without the key to their facts, in order."""
        ...

    def retire(self, retired: Retired) -> Retirement:
        """
        Take an ended run off the server, all at once: nothing stays of it but its row in the index,
        as `archived`, by which its id is still known, and references in the feed. Repeated, it
        changes nothing.
        """
        ...

    def sealed(self, task: str) -> bytes | None:
        """The candidate that was sealed for a task; None once it has expired or was dropped."""
        ...

    def snapshot(self, run: str) -> bytes | None:
        """The folded state that was last kept of a run, or None."""
        ...

    def keep_snapshot(
        self, run: str, version: int, data: bytes, *, gap_events: int, ttl_ms: int
    ) -> bool:
        """
        Keep a run's folded state as of `version` for `ttl_ms`; whether it was kept. It is not for a
        run that is gone, archived or not that far, nor where one is less than `gap_events` behind.

        Raises:
            StoreFull: the server has no memory for it.
        """
        ...

    def feed(
        self, partition: int, after: str = "0", *, limit: int = 1_000, wait_ms: int = 0
    ) -> list[FeedEntry]:
        """
        References of a partition's appends after the feed id `after`, oldest first.

        Raises:
            FeedTrimmed: some of them were trimmed; those left begin after the error's `trimmed`.
        """
        ...

    def feed_entry(self, partition: int, feed_id: str) -> FeedEntry | None:
        """The reference of that id, or None: it was trimmed, or the server was set back."""
        ...

    def feed_end(self, partition: int) -> str:
        """The id of a partition's newest reference; `"0"`: there is none."""
        ...

    def trim_feed(self, partition: int, *, keep: int, idle_ms: int) -> int:
        """
        Drop references that every projection has read, but the newest `keep`; how many that were.
        A projection that has not committed for `idle_ms` is not waited for.
        """
        ...

    def partitions(self) -> int:
        """How many partitions this server has."""
        ...

    def checkpoint(self, projection: str, partition: int) -> str:
        """The last feed entry that a projection's rows contain; `"0"`: none yet."""
        ...

    def rows(
        self, projection: str, partition: int, runs: Sequence[str] | None = None
    ) -> dict[str, bytes]:
        """A projection's rows by run: all of a partition, or those of `runs` that exist."""
        ...

    def commit_rows(
        self,
        projection: str,
        partition: int,
        *,
        expected: str,
        checkpoint: str,
        rows: Mapping[str, bytes],
    ) -> bool:
        """
        Set rows and checkpoint together, if the checkpoint still is `expected`. With that the
        projection counts as a follower of the feed, from which nothing that it needs is trimmed.
        Rows of archived runs are left out.
        """
        ...

    def switch_rows(self, source: str, projection: str, partition: int, *, expected: str) -> bool:
        """Make `source`'s rows those of `projection`, if its checkpoint still is `expected`."""
        ...

    def drop_rows(self, projection: str, partition: int) -> None:
        """Forget a projection's rows, its checkpoint, and that it followed."""
        ...

    def announce(self, worker: str, card: bytes, ttl_ms: int) -> dict[str, bytes]:
        """
        Say that a worker lives for `ttl_ms` from now (0: it ends), and get the cards of all that
        live, by worker. Whoever has not said so in time is forgotten.
        """
        ...

    def workers(self) -> dict[str, bytes]:
        """The cards of all workers that live, by worker."""
        ...

    def kept_settings(self, workflow: str) -> bytes | None:
        """What people have changed of a workflow's settings, or None."""
        ...

    def keep_settings(self, workflow: str, data: bytes | None) -> None:
        """
        Keep that, in the place of what was kept before; None: nothing is changed any more.

        Raises:
            StoreFull: the server has no memory for it.
        """
        ...

    def data_keys(self) -> Iterator[tuple[str, bytes]]:
        """The data key of every run that has one, as it is stored (`Vault`), in no order."""
        ...

    def replace_data_keys(self, changes: Sequence[tuple[str, bytes, bytes]]) -> int:
        """
        Put other records in the place of data keys: run, the record that was read, the one to come.
        Those that are another meanwhile stay as they are; how many were replaced.
        """
        ...

    def payload_keys_in_use(self) -> dict[str, str]:
        """The names and fingerprints of payload keys by which data keys were wrapped."""
        ...

    def use_payload_key(self, name: str, fingerprint: str) -> None:
        """
        Say that data keys are wrapped by a payload key from now on.

        Raises:
            PayloadKeyMissing: others are wrapped by another one of that name.
        """
        ...

    def retire_payload_key(self, name: str) -> None:
        """No data key is wrapped by that payload key any more."""
        ...

    def check(self) -> list[str]:
        """
        What a person should know about how the server is set up (no append-only file, …).

        Raises:
            StoreUnfit: the server evicts keys, or is too old.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
