"""
Data keys moved to the first payload key, and data keys destroyed.

Only the wrapping changes: events, values and archived files stay as they are, byte for byte. So a
rotation costs a look at each run's record, may be broken off and begun again at any moment, and
goes on while runs are worked.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

import msgspec

from mulligan.errors import EventUnreadable, InvalidInput, PayloadKeyMissing, RunUnknown
from mulligan.events.payload_keys import PayloadKeys
from mulligan.events.store import EventStore
from mulligan.events.vault import FORGOTTEN, Record, unwrapped, wrapped

BATCH = 500
"""Records replaced by one call: a tenth of a millisecond of the server's."""

Change = tuple[str, bytes, bytes]


class Rotated(msgspec.Struct, kw_only=True):
    """
    How many runs' data keys were moved to the first payload key; how many each payload key wraps
    now, by name and fingerprint; runs that were forgotten; those whose data key could not be moved,
    with the reason; and payload keys that wrap none any more.
    """

    kind: Literal["rotated"] = "rotated"
    moved: int = 0
    runs: dict[str, int] = {}
    forgotten: int = 0
    left: dict[str, str] = {}
    free: list[str] = []


def rotate(store: EventStore, keys: PayloadKeys) -> Rotated:
    """
    Move the data keys of all runs to the first payload key, those of archived runs too.

    Raises:
        PayloadKeyMissing: another key of that name is in use.
    """
    store.use_payload_key(keys.first.name, keys.first.fingerprint)
    done = Rotated()
    changes = _changes(store, keys, done)
    while batch := list(islice(changes, BATCH)):
        done.moved += store.replace_data_keys(batch)
    done.runs, done.forgotten = wrapped_by(store)
    named = {name.partition(" ")[0] for name in done.runs}
    for name in store.payload_keys_in_use():
        if name not in named and name != keys.first.name:
            store.retire_payload_key(name)
            done.free.append(name)
    return done


def _changes(store: EventStore, keys: PayloadKeys, done: Rotated) -> Iterator[Change]:
    first = (keys.first.name, keys.first.fingerprint)
    for run, text in store.data_keys():
        if text == FORGOTTEN:
            continue
        record = Record.of(text)
        if (record.name, record.fingerprint) == first:
            continue
        try:
            secret = unwrapped(keys, run, record)
        except PayloadKeyMissing as error:
            done.left[run] = error.told
        except EventUnreadable as error:
            done.left[run] = str(error)
        else:
            yield run, text, wrapped(keys, run, record.id, secret).text


def wrapped_by(store: EventStore) -> tuple[dict[str, int], int]:
    """How many runs' data keys each payload key wraps, and how many runs were forgotten."""
    counts: dict[str, int] = {}
    forgotten = 0
    for _, text in store.data_keys():
        if text == FORGOTTEN:
            forgotten += 1
            continue
        record = Record.of(text)
        name = f"{record.name} ({record.fingerprint})"
        counts[name] = counts.get(name, 0) + 1
    return counts, forgotten


def forget(store: EventStore, run: str) -> int:
    """
    Destroy the data key of a run that has ended, and with it all that it contained, wherever copies
    of it lie. How many of its events stay readable, since they were written without a key.

    Raises:
        RunUnknown: there is no such run.
        InvalidInput: it has not ended, or nothing of it is encrypted.
    """
    row = store.row(run)
    if row is None:
        raise RunUnknown(run)
    if row.phase not in ("closed", "archived"):
        raise InvalidInput(f"run {run!r} has not ended: cancel it first")
    record = store.vault.record_of(run)
    if record is None:
        raise InvalidInput(f"nothing of run {run!r} is encrypted, so it can't be forgotten")
    clear = sum(not one.encrypted for one in store.outlines(run))
    if record != FORGOTTEN:
        store.replace_data_keys([(run, record, FORGOTTEN)])
        store.vault.drop(run)
        if store.vault.record_of(run) != FORGOTTEN:  # a rotation was quicker
            return forget(store, run)
    return clear
