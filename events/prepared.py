"""
An append, checked and packed: what every store does before it looks at the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mulligan.events.codec import encode, event_id
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.payload import INLINE_LIMIT_BYTES, Payload, canonical, with_payloads
from mulligan.events.schedules import is_schedule
from mulligan.events.sealed import Sealed
from mulligan.events.store import (
    MAX_EVENTS_OF_NEW_RUN,
    MAX_EVENTS_PER_APPEND,
    Append,
    AsFact,
    AsNew,
    ByTask,
    Move,
)
from mulligan.events.tasks import parse_task

if TYPE_CHECKING:
    from mulligan.events.data_key import DataKey
    from mulligan.events.vault import KeptKey

RELEASES = frozenset({"timer", "wait", "end"})
"""Moves by which a writer lets go of its own task."""

LONGEST_DELAY_MS = 10 * 365 * 86_400_000
"""A moment beyond would be a number that the scripts could not write down whole."""

_RUN = re.compile(r"[^\s/|{}]{1,200}")
_WORD = re.compile(r"[^\s|]{1,200}")
_LINE = re.compile(r"[^\r\n]{1,500}")


class Prepared(msgspec.Struct, frozen=True):
    """
    An append's events as they will be stored, their bytes, the payloads moved out, by their names,
    and the candidates; encrypted, if there is a data key.
    """

    append: Append
    events: tuple[NewEvent, ...]
    raw: tuple[bytes, ...]
    payloads: Mapping[str, bytes]
    sealed: tuple[Sealed, ...] = ()
    held: KeptKey | None = None

    @property
    def digest(self) -> str:
        """What a new run's row tells of its request."""
        writer = self.append.writer
        plain = writer.digest if isinstance(writer, AsNew) else ""
        return self.held.key.name(plain) if self.held is not None else plain

    def envelopes(self, version: int, now_ms: int) -> tuple[Envelope, ...]:
        """The events as they stand in the log once the run is at `version`."""
        first = version - len(self.events) + 1
        return tuple(
            Envelope(
                id=event_id(self.append.op, index),
                run=self.append.run,
                version=first + index,
                time_ms=now_ms,
                data=event.data,
                node=event.node,
                attempt=event.attempt,
                causation=self.append.causation,
                correlation=self.append.correlation,
            )
            for index, event in enumerate(self.events)
        )


def prepare(append: Append, held: KeptKey | None = None) -> Prepared:
    """
    Check an append and pack its events, encrypted with the data key that is `held` for it.

    Raises:
        ValueError: it makes no sense, whatever the log holds.
    """
    check_names(append)
    check_moves(append)
    check_take(append)
    check_sealed(append)
    if append.begins_anew and not (append.events and is_schedule(append.run)):
        raise ValueError(f"run {append.run!r}: only a schedule's stream begins anew, with events")
    if not append.events and not append.moves:
        raise ValueError(f"run {append.run!r}: an append with neither events nor moves")
    if not append.events and isinstance(append.writer, AsNew):
        raise ValueError(f"run {append.run!r}: a run begins with an event")
    most = MAX_EVENTS_OF_NEW_RUN if isinstance(append.writer, AsNew) else MAX_EVENTS_PER_APPEND
    if len(append.events) > most:
        raise ValueError(
            f"{len(append.events)} events in one append, {most} are allowed; "
            "split them into several appends"
        )
    payloads: dict[str, bytes] = {}
    keep_small = partial(_outside, payloads=payloads)
    events = tuple(
        NewEvent(with_payloads(event.data, keep_small), event.node, event.attempt)
        for event in append.events
    )
    if held is None:
        return Prepared(append, events, tuple(_encoded(append, events)), payloads, append.sealed)
    raw = tuple(_encoded(append, events, held.key))
    return Prepared(append, events, raw, *_encrypted(append, payloads, held.key), held)


def _encrypted(
    append: Append, payloads: Mapping[str, bytes], key: DataKey
) -> tuple[dict[str, bytes], tuple[Sealed, ...]]:
    """What lies beside the events: large values by other names, and candidates."""
    named = {key.name(digest): value for digest, value in payloads.items()}
    values = {name: key.seal(value, "value", name) for name, value in named.items()}
    return values, tuple(one.encrypted(key) for one in append.sealed)


def releases_own(append: Append) -> bool:
    """Whether the writer lets go of its task with this append."""
    writer = append.writer
    return isinstance(writer, ByTask) and any(
        move.task == writer.task and move.to in RELEASES for move in append.moves
    )


def is_run_id(name: str) -> bool:
    """Whether a run can have that id: no blanks, `/`, `|` or braces, 200 characters at most."""
    return _RUN.fullmatch(name) is not None


def check_names(append: Append) -> None:
    """Refuse names that a stored record could not be read back from."""
    if not is_run_id(append.run):
        raise ValueError(f"not a run id: {append.run!r} (no blanks, '/', '|', '{{' or '}}')")
    if not _WORD.fullmatch(append.op):
        raise ValueError(f"run {append.run!r}: not an operation id: {append.op!r}")
    match append.writer:
        case AsNew(digest) if not _WORD.fullmatch(digest):
            raise ValueError(f"run {append.run!r}: not a digest: {digest!r}")
        case AsFact(key) if not _LINE.fullmatch(key):
            raise ValueError(f"run {append.run!r}: not a fact's key: {key!r}")
        case ByTask(task):
            check_task(append.run, task)
        case _:
            pass


def check_task(run: str, task: str) -> None:
    """Refuse a task of another run: its keys may lie elsewhere."""
    if parse_task(task)[0] != run:
        raise ValueError(f"task {task!r} is not of run {run!r}")


def check_lease(run: str, task: str, token: str) -> None:
    """Refuse a lease whose record could not be read back."""
    check_task(run, task)
    if not _WORD.fullmatch(token):
        raise ValueError(f"task {task!r}: not a token: use a fresh random one of 96 bits, as hex")


def check_moves(append: Append) -> None:
    """Refuse moves of other runs' tasks, and any but a wake of a task that is not the writer's."""
    own = append.writer.task if isinstance(append.writer, ByTask) else None
    for move in append.moves:
        check_task(append.run, move.task)
        if type(move.delay_ms) is not int or not 0 <= move.delay_ms <= LONGEST_DELAY_MS:
            raise ValueError(f"task {move.task!r}: a delay of {move.delay_ms!r} ms")
        if move.to not in ("ready", "wake") and move.task != own:
            raise ValueError(f"task {move.task!r}: only its own holder may move it to {move.to!r}")
    if own is not None:
        _check_own_moves([move for move in append.moves if move.task == own])


def check_take(append: Append) -> None:
    """Refuse a lease taken beside the writer's own, or on a task that the append does not move."""
    take = append.take
    if take is None:
        if append.as_of is not None and not releases_own(append):
            raise ValueError(f"run {append.run!r}: only who lets go decides for others as well")
        return
    check_lease(append.run, take.task, take.token)
    if not releases_own(append) or append.phase is not None:
        raise ValueError(f"task {take.task!r}: taken by a writer that keeps its own task")
    if type(take.lease_ms) is not int or not 0 < take.lease_ms <= LONGEST_DELAY_MS:
        raise ValueError(f"task {take.task!r}: a lease of {take.lease_ms!r} ms")
    if not any(move.task == take.task and move.to in ("ready", "wake") for move in append.moves):
        raise ValueError(f"task {take.task!r}: taken, but neither made ready nor woken")


def check_sealed(append: Append) -> None:
    """Refuse candidates of other runs' tasks, and any that would never expire."""
    for task in (*(one.task for one in append.sealed), *append.discarded):
        check_task(append.run, task)
    for one in append.sealed:
        if one.ttl_ms <= 0:
            raise ValueError(f"task {one.task!r}: a candidate sealed for {one.ttl_ms} ms")


def _check_own_moves(moves: list[Move]) -> None:
    if len(moves) > 1:
        raise ValueError(
            f"task {moves[0].task!r}: moved twice in one append, "
            f"to {moves[0].to!r} and {moves[1].to!r}"
        )


def _encoded(
    append: Append, events: tuple[NewEvent, ...], key: DataKey | None = None
) -> Iterator[bytes]:
    for index, event in enumerate(events):
        yield encode(
            event,
            id=event_id(append.op, index),
            causation=append.causation,
            correlation=append.correlation,
            key=key,
        )


def _outside(payload: Payload, payloads: dict[str, bytes]) -> Payload:
    """The payload as it is stored; a large value goes to `payloads`."""
    if not (payload.inline and payload.size > INLINE_LIMIT_BYTES):
        return payload
    payloads[payload.digest] = canonical(payload.value)
    return payload.without_value()
