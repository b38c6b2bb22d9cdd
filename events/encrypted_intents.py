"""
Intents whose digests of arguments are encrypted where they are kept: who reads the witness can't
guess what a write was called with.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator

from msgspec.structs import replace

from mulligan.errors import EventUnreadable
from mulligan.events.intents import Intent, Intents
from mulligan.events.vault import Vault


class EncryptedIntents:
    """`Intents` kept by others, with digests that only the key of their run opens."""

    def __init__(self, kept: Intents, vault: Vault) -> None:
        self._kept = kept
        self._vault = vault

    @property
    def place(self) -> str:
        """See `Intents.place`."""
        return self._kept.place

    def check(self) -> None:
        """See `Intents.check`."""
        self._kept.check()

    def note(self, intent: Intent) -> bool:
        """See `Intents.note`."""
        sealed = self._vault.sealed(intent.run, intent.digest.encode(), _what(intent))
        if intent.digest and sealed != intent.digest.encode():
            intent = replace(intent, digest=b64encode(sealed).decode())
        return self._kept.note(intent)

    def of_run(self, run: str) -> list[Intent]:
        """See `Intents.of_run`."""
        return [self._opened(intent) for intent in self._kept.of_run(run)]

    def runs(self) -> Iterator[str]:
        """See `Intents.runs`."""
        return self._kept.runs()

    def _opened(self, intent: Intent) -> Intent:
        """With the digest as it was noted; without one, where it can't be had."""
        try:
            sealed = b64decode(intent.digest, validate=True)
            digest = self._vault.opened(intent.run, sealed, _what(intent))
        except NotBase64:
            return intent
        except EventUnreadable:
            return replace(intent, digest="")
        return intent if digest == sealed else replace(intent, digest=digest.decode())


def _what(intent: Intent) -> str:
    return f"intent {intent.call_id} {intent.execution}"
