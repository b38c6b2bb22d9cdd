"""
Where the contents of runs are encrypted and decrypted: each run by a data key of its own, which is
stored beside the log, wrapped by a payload key.

Events never change. Rotation wraps the data keys anew, and a run whose data key is destroyed is
forgotten, wherever copies of its events may lie.

A stored record: `<id of the data key>|<name of the payload key>|<its fingerprint>|<wrapped, as
base64>`, or `forgotten`.
"""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic

import msgspec

from mulligan.errors import EventUnreadable, PayloadKeyMissing, RunForgotten
from mulligan.events.archive import StoredEvent
from mulligan.events.codec import decode
from mulligan.events.data_key import DataKey, is_sealed_text
from mulligan.events.envelope import Envelope
from mulligan.events.payload import digest_of
from mulligan.events.payload_keys import KEY_BYTES, PayloadKeys
from mulligan.events.sealed import MARK
from mulligan.events.store import Append, AsNew

FORGOTTEN = b"forgotten"
KEPT_S = 60.0
"""So late a process that has read a run notices that it was forgotten."""
MAX_RUNS = 10_000
"""Of whose data keys a process remembers: a kilobyte each."""


class Record(msgspec.Struct, frozen=True):
    """A data key as it is stored."""

    id: str
    name: str
    fingerprint: str
    wrapped: bytes

    @classmethod
    def of(cls, text: bytes) -> Record:
        """The record that a text is."""
        id, name, fingerprint, wrapped = text.decode().split("|")  # noqa: A001 - the field's name
        return cls(id, name, fingerprint, b64decode(wrapped))

    @property
    def text(self) -> bytes:
        """As it is stored."""
        parts = (self.id, self.name, self.fingerprint, b64encode(self.wrapped).decode())
        return "|".join(parts).encode()


class KeptKey(msgspec.Struct, frozen=True):
    """A run's data key, and the record that an append stores if there is none yet."""

    key: DataKey
    record: bytes


class Vault:
    """
    The data keys of a store's runs, those that were used last kept unwrapped.

    Args:
        keys: the payload keys of this process; None: what is written stays in the clear, and what
            is encrypted can't be read.
        stored: gives the records of some runs, in their order; None for a run without one.
        used: is told the name and the fingerprint of a payload key before it wraps for the first
            time.
    """

    def __init__(
        self,
        keys: PayloadKeys | None,
        stored: Callable[[Sequence[str]], Sequence[bytes | None]],
        used: Callable[[str, str], None] = lambda name, fingerprint: None,
    ) -> None:
        self.keys = keys
        self._stored = stored
        self._used = used
        self._said = False
        self._lock = Lock()
        self._held: OrderedDict[str, tuple[KeptKey, float]] = OrderedDict()
        """by run: its key, and until when it is not looked up again, in monotonic seconds"""
        self.lacking: Mapping[str, str] = {}
        """Payload keys that the server's runs need and this process lacks, with fingerprints."""

    # --- Writing ---------------------------------------------------------------------------------

    def for_append(self, append: Append) -> KeptKey | None:
        """
        The data key with which to encrypt an append; None: it goes in the clear.

        Raises:
            PayloadKeyMissing: the run's key is not here; or a new run would be written in the clear
                to a server whose runs are encrypted.
            RunForgotten: nothing is added to a run that was forgotten.
        """
        new, run = isinstance(append.writer, AsNew), append.run
        if self.keys is None:
            if new and self.lacking:
                raise PayloadKeyMissing("this server's runs", next(iter(self.lacking)))
            return None
        if not append.events and not append.sealed:
            return None
        # A new run has no key yet. If it is not new after all, the log says so.
        held = self._known(run) if new else self._look_up(run)
        return held or self._minted(run, self.keys)

    def same_request(self, append: Append, digest: str) -> bool:
        """Whether a run's row, with this digest in it, is of the request that an append makes."""
        if not isinstance(append.writer, AsNew):
            return False
        if append.writer.digest == digest:
            return True
        self.drop(append.run)
        key = self.key_of(append.run) if self.keys is not None else None
        return key is not None and key.name(append.writer.digest) == digest

    def stands(self, held: KeptKey) -> None:
        """The log has this data key as its run's."""
        self._remember(held)

    def drop(self, run: str) -> None:
        """Another data key than the one known here may be the run's."""
        with self._lock:
            self._held.pop(run, None)

    def _minted(self, run: str, keys: PayloadKeys) -> KeptKey:
        if not self._said:
            self._used(keys.first.name, keys.first.fingerprint)
            self._said = True
        secret, id = secrets.token_bytes(KEY_BYTES), secrets.token_urlsafe(6)  # noqa: A001
        return KeptKey(DataKey(run, id, secret), wrapped(keys, run, id, secret).text)

    def look(self, in_use: Mapping[str, str]) -> None:
        """Note which of the payload keys that a server's runs need are lacking here."""
        here = {key.name: key.fingerprint for key in self.keys} if self.keys is not None else {}
        self.lacking = {name: told for name, told in in_use.items() if here.get(name) != told}

    # --- Reading ---------------------------------------------------------------------------------

    def missing(self, run: str) -> str | None:
        """The payload key that a run needs and that is not here, as far as one is known to lack."""
        if not self.lacking:
            return None
        try:
            self._look_up(run)
        except PayloadKeyMissing as error:
            return error.key
        except EventUnreadable:
            return None  # for its readers to say so
        return None

    def key_of(self, run: str) -> DataKey | None:
        """
        A run's data key; None: it has none.

        Raises:
            PayloadKeyMissing, RunForgotten: it can't be had.
        """
        held = self._look_up(run)
        return held.key if held is not None else None

    def key_named(self, run: str, id: str) -> DataKey:  # noqa: A002 - the field's name
        """
        The data key by which something of a run was encrypted.

        Raises:
            PayloadKeyMissing, RunForgotten: it can't be had.
            EventUnreadable: it is not the run's any more.
        """
        key = self.key_of(run)
        if key is None or key.id != id:
            self.drop(run)
            key = self.key_of(run)
        if key is None or key.id != id:
            raise EventUnreadable(
                f"run {run!r}: its data key {id} is lost: its server was set back, or it was "
                "copied without the data keys"
            )
        return key

    def record_of(self, run: str) -> bytes | None:
        """The record of a run's data key as it is stored now, or None."""
        return self._stored([run])[0]

    def keys_of(self, runs: Sequence[str]) -> dict[str, DataKey | None]:
        """The data keys of runs, in one look; those that can't be had are left out."""
        known = ((run, self._known(run)) for run in runs)
        found: dict[str, DataKey | None] = {
            run: held.key for run, held in known if held is not None
        }
        asked = [run for run in runs if run not in found]
        for run, text in zip(asked, self._stored(asked) if asked else (), strict=True):
            try:
                held = self._unwrapped(run, text)
            except EventUnreadable:
                continue
            found[run] = held.key if held is not None else None
        return found

    def decoded(self, run: str, events: Sequence[StoredEvent], after: int = 0) -> list[Envelope]:
        """A run's stored events that follow version `after`. Raises EventUnreadable."""
        return [
            decode(run, version, event.time_ms, event.raw, self.key_named)
            for version, event in enumerate(events, start=after + 1)
        ]

    def _look_up(self, run: str) -> KeptKey | None:
        return self._known(run) or self._unwrapped(run, self._stored([run])[0])

    def _known(self, run: str) -> KeptKey | None:
        with self._lock:
            held, until_s = self._held.get(run, (None, 0.0))
            if held is None or monotonic() > until_s:
                return None
            self._held.move_to_end(run)
            return held

    def _unwrapped(self, run: str, text: bytes | None) -> KeptKey | None:
        if text is None:
            return None
        if text == FORGOTTEN:
            raise RunForgotten(run)
        record = Record.of(text)
        held = KeptKey(DataKey(run, record.id, self._secret(run, record)), text)
        self._remember(held)
        return held

    def _secret(self, run: str, record: Record) -> bytes:
        try:
            return unwrapped(self.keys, run, record)
        except PayloadKeyMissing:
            self.lacking = {**self.lacking, record.name: record.fingerprint}
            raise

    def _remember(self, held: KeptKey) -> None:
        with self._lock:
            self._held[held.key.run] = (held, monotonic() + KEPT_S)
            self._held.move_to_end(held.key.run)
            if len(self._held) > MAX_RUNS:
                self._held.popitem(last=False)

    # --- Values that stand by themselves ---------------------------------------------------------

    def sealed(self, run: str, data: bytes, what: str) -> bytes:
        """Something of a run as it is stored; as it is, if the run has no data key."""
        key = self.key_of(run) if self.keys is not None else None
        return MARK + key.seal(data, what) if key is not None else data

    def opened(self, run: str, data: bytes, what: str) -> bytes:
        """
        What was stored of a run.

        Raises:
            PayloadKeyMissing, RunForgotten, EventUnreadable: it can't be had.
        """
        if not data.startswith(MARK):
            return data
        key = self.key_of(run)
        return key.open(data[len(MARK) :], what) if key is not None else data

    def sealed_rows(self, rows: Mapping[str, bytes]) -> dict[str, bytes]:
        """Rows by run, as they are stored."""
        if self.keys is None:
            return dict(rows)
        keys = self.keys_of(list(rows))
        return {run: _sealed_row(keys.get(run), row) for run, row in rows.items()}

    def opened_rows(self, rows: Mapping[str, bytes]) -> dict[str, bytes]:
        """Stored rows by run; one that can't be read is empty, as is one that has to be folded."""
        sealed = [run for run, row in rows.items() if is_sealed_text(row)]
        if not sealed:
            return dict(rows)
        keys = self.keys_of(sealed)
        return {**rows, **{run: _opened_row(keys.get(run), rows[run]) for run in sealed}}

    def sealed_values(self, run: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
        """Large values by their digests, as an archive keeps them."""
        key = self.key_of(run)
        if key is None:
            return dict(values)
        named = {key.name(digest): value for digest, value in values.items()}
        return {name: key.seal_text(value, "value", name) for name, value in named.items()}

    def names_of(self, run: str, digests: Sequence[str]) -> list[str]:
        """Every name under which the values of those digests may lie."""
        key = self.key_of(run) if self.keys is not None and digests else None
        return [*digests, *(key.name(digest) for digest in digests if key is not None)]

    def opened_value(self, run: str, digest: str, values: Mapping[str, bytes]) -> bytes | None:
        """A value of those that an archive keeps; None: it is not among them."""
        if digest in values:
            return values[digest]
        key = self.key_of(run)
        name = key.name(digest) if key is not None else ""
        if key is None or name not in values:
            return None
        return key.open_text(values[name], "value", name)


def _sealed_row(key: DataKey | None, row: bytes) -> bytes:
    return key.seal_text(row, "row") if key is not None else row


def _opened_row(key: DataKey | None, row: bytes) -> bytes:
    try:
        return key.open_text(row, "row") if key is not None else b""
    except EventUnreadable:
        return b""


def open_value(key: DataKey, digest: str, sealed: bytes) -> bytes:
    """
    A large value as Redis holds it.

    Raises:
        EventUnreadable: it is not what was encrypted, or not what its digest says.
    """
    try:
        data = key.open(sealed, "value", key.name(digest))
    except EventUnreadable as error:
        raise EventUnreadable(f"{error} (the payload {digest})") from None
    if digest_of(data) != digest:
        raise EventUnreadable(f"run {key.run!r}: the payload {digest} is not what its digest says")
    return data


# --- Wrapping ------------------------------------------------------------------------------------


def wrapped(keys: PayloadKeys, run: str, id: str, secret: bytes) -> Record:  # noqa: A002
    """A data key's record, by the first of the payload keys."""
    first = keys.first
    return Record(id, first.name, first.fingerprint, first.wrap(secret, _wrapped_for(run, id)))


def unwrapped(keys: PayloadKeys | None, run: str, record: Record) -> bytes:
    """
    The data key of a record.

    Raises:
        PayloadKeyMissing: its payload key is not among `keys`, or is another of that name.
        EventUnreadable: the record is damaged, or another run's.
    """
    key = keys.named(record.name) if keys is not None else None
    if key is None or key.fingerprint != record.fingerprint:
        raise PayloadKeyMissing(f"run {run!r}", record.name, other=key is not None)
    secret = key.unwrap(record.wrapped, _wrapped_for(run, record.id))
    if secret is None:
        raise EventUnreadable(f"run {run!r}: its data key was damaged, or tampered with")
    return secret


def _wrapped_for(run: str, id: str) -> bytes:  # noqa: A002 - the field's name
    return msgspec.json.encode(("data key", run, id))
