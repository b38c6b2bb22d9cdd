"""
The append script's call and reply, and what it stores, as values; `lua/append.lua` describes both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never, cast

from mulligan.events.codec import KeyNamed, decode
from mulligan.events.envelope import Envelope
from mulligan.events.keys import Keys
from mulligan.events.prepared import Prepared
from mulligan.events.refusals import Refusal, refusal
from mulligan.events.schedules import is_schedule
from mulligan.events.store import (
    MAX_CLAIMS,
    Append,
    Appended,
    AsFact,
    AsNew,
    ByTask,
    ByVersion,
    Claimed,
    Row,
    RunPhase,
    Writer,
)

# --- What begins work, what must not be lost -----------------------------------------------------


def begins_work(writer: Writer) -> bool:
    """Whether more follows from this append than what is under way already."""
    return isinstance(writer, AsNew) or (isinstance(writer, ByTask) and writer.intent)


def goes_on_when_full(writer: Writer) -> bool:
    """
    What follows from admitted work, and what ends it, is taken to the last byte: a tool's receipt
    that found no room would leave its effect unknown.
    """
    return isinstance(writer, AsFact) or (isinstance(writer, ByTask) and not writer.intent)


NO_TAKE = ("", "", "")
"""In the place of a task, a token and a lease."""


# --- The append script's call and reply ----------------------------------------------------------


def append_keys(keys: Keys, prepared: Prepared) -> list[str]:
    """The keys of the append script, in its order."""
    run = prepared.append.run
    payloads = [keys.payload(run, name) for name in prepared.payloads]
    sealed = [keys.sealed(one.task) for one in prepared.append.sealed]
    discarded = [keys.sealed(task) for task in prepared.append.discarded]
    data_keys = [keys.data_keys] if prepared.held is not None else []
    beside = [*payloads, *sealed, *discarded, *data_keys]
    return [keys.run(run), keys.feed, keys.due, keys.tasks, keys.runs, *beside]


def append_args(prepared: Prepared) -> list[Any]:
    """The arguments of the append script, in its order."""
    append = prepared.append
    take = append.take
    moves = [part for move in append.moves for part in (move.task, move.to, move.delay_ms)]
    held = prepared.held
    return [
        append.run,
        append.op,
        *_writer_args(prepared),
        _flags(append) if held is None else f"{_flags(append)}k",
        len(append.moves),
        len(append.sealed),
        len(append.discarded),
        "" if append.as_of is None else append.as_of,
        *((take.task, take.token, take.lease_ms) if take is not None else NO_TAKE),
        *moves,
        *prepared.payloads.values(),
        *(part for one in prepared.sealed for part in (one.ttl_ms, one.data)),
        *prepared.raw,
        *((held.key.id, held.record) if held is not None else ()),
    ]


def _writer_args(prepared: Prepared) -> tuple[str, str, str, str, int]:
    """mode, subject, token, previous op, inbox"""
    writer: Writer = prepared.append.writer
    match writer:
        case AsNew():
            return "new", prepared.digest, "", "", 0
        case ByTask(task, token, previous_op, inbox):
            return "task", task, token, previous_op, inbox
        case ByVersion(version):
            return "version", str(version), "", "", 0
        case AsFact(key):
            return "fact", key, "", "", 0
        case _:
            assert_never(writer)


def _flags(append: Append) -> str:
    writer = append.writer
    flags = {"cancelling": "x", "closed": "c", None: ""}[append.phase]
    if isinstance(writer, ByTask) and writer.intent:
        flags += "i"
    if isinstance(writer, AsFact) and writer.receipt:
        flags += "r"
    if is_schedule(append.run):
        flags += "s"
    if append.begins_anew:
        flags += "b"
    return flags


def appended(prepared: Prepared, reply: list[Any], same_request: Callable[[str], bool]) -> Appended:
    """
    What the append script's reply says; `same_request` tells whether the digest in a run's row is
    of this very request.

    Raises:
        MulliganError: as `EventStore.append` lists them.
    """
    status, version, now_ms, digest = reply[0].decode(), reply[1], reply[2], reply[3].decode()
    append = prepared.append
    if status == "OK":
        events = prepared.envelopes(version, now_ms)
        return Appended(version, now_ms, events, taken=_taken(append, reply))
    if status == "DUP":
        return Appended(version, now_ms, (), repeated=True, taken=_taken(append, reply))
    if status == "EXISTS" and same_request(digest):
        return Appended(version, now_ms, (), repeated=True)
    raise refusal(cast(Refusal, status), append, version, inbox=reply[4])


def _taken(append: Append, reply: list[Any]) -> Claimed | None:
    """The lease that came with it, on a run that is open."""
    lost, inbox = reply[4], reply[5]
    if append.take is None or lost < 0:
        return None
    return Claimed(
        task=append.take.task,
        token=append.take.token,
        version=reply[1],
        phase="open",
        op=append.op,
        inbox=inbox,
        claims=lost,
        now_ms=reply[2],
        poison=lost >= MAX_CLAIMS,
    )


def is_rekeyed(reply: list[Any]) -> bool:
    """Whether the run has another data key than the append was encrypted with."""
    return bool(reply[0] == b"REKEYED")


# --- What is stored ------------------------------------------------------------------------------


def stored_envelope(
    run: str, entry_id: str, fields: Mapping[bytes, bytes], key_named: KeyNamed
) -> Envelope:
    """An entry of a run's stream."""
    version = int(entry_id.partition("-")[0])
    return decode(run, version, int(fields.get(b"t", 0)), fields.get(b"d", b""), key_named)


def stored_row(text: bytes) -> Row:
    """A row of the index of runs."""
    version, phase, digest, _ = text.decode().split("|", 3)
    return Row(int(version), cast(RunPhase, phase), digest)
