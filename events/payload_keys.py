"""
The named keys that operators hold: each wraps the data keys of runs, and nothing else.

The first of a list wraps, all of them unwrap. A key is 32 random bytes; it is known by its name and
by its fingerprint, which tells apart two keys of one name, and never shown itself.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from mulligan.errors import InvalidInput

KEY_BYTES = 32
"""Of AES-256."""
NONCE_BYTES = 12
"""What GCM takes without hashing it first (NIST SP 800-38D)."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class PayloadKey:
    """A key with a name; its `repr` shows that and its fingerprint."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.name = name
        self._secret = secret
        self.fingerprint = hashlib.sha256(b"mulligan payload key\0" + secret).hexdigest()[:8]

    def __repr__(self) -> str:
        return f"PayloadKey({self.name!r}, {self.fingerprint})"

    @property
    def told(self) -> str:
        """Its name and its fingerprint, for people."""
        return f"{self.name} ({self.fingerprint})"

    def wrap(self, secret: bytes, place: bytes) -> bytes:
        """A secret, encrypted; only under the same `place` it is unwrapped again."""
        nonce = os.urandom(NONCE_BYTES)
        wrapped: bytes = self._aead.encrypt(nonce, secret, place)
        return nonce + wrapped

    def unwrap(self, wrapped: bytes, place: bytes) -> bytes | None:
        """The secret; None: it was wrapped by another key, for another place, or is damaged."""
        from cryptography.exceptions import InvalidTag

        try:
            secret: bytes = self._aead.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            return None
        return secret

    @cached_property
    def _aead(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._secret)


class PayloadKeys:
    """A list of keys, by name; there is at least one."""

    def __init__(self, keys: tuple[PayloadKey, ...]) -> None:
        self._keys = {key.name: key for key in keys}
        self.first = keys[0]

    def __repr__(self) -> str:
        return f"PayloadKeys({list(self)!r})"

    def __iter__(self) -> Iterator[PayloadKey]:
        return iter(self._keys.values())

    def named(self, name: str) -> PayloadKey | None:
        """The key of that name, or None."""
        return self._keys.get(name)


def payload_keys(text: str | None) -> PayloadKeys | None:
    """
    The keys of a text `NAME:KEY`, one after another with commas, blanks or line ends between them;
    lines that begin with `#` are left out. None: there is no text.

    Raises:
        InvalidInput: it is not such a text. The message quotes no key.
    """
    if text is None:
        return None
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    entries = re.split(r"[,\s]+", "\n".join(lines).strip(", \t\r\n"))
    keys = tuple(_key(place, entry) for place, entry in enumerate(entries, start=1))
    if len({key.name for key in keys}) < len(keys):
        raise InvalidInput("payload keys: the same name stands there twice")
    if len({key.fingerprint for key in keys}) < len(keys):
        raise InvalidInput("payload keys: the same key stands there under two names")
    return PayloadKeys(keys)


def new_key(name: str) -> str:
    """
    A fresh key as it stands in a list.

    Raises:
        InvalidInput: a key can't have that name.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:60]!r} is no name for a key: letters, digits, '.', '_' and '-', 40 at most"
        )
    return f"{name}:{urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode().rstrip('=')}"


def _key(place: int, entry: str) -> PayloadKey:
    name, colon, encoded = entry.partition(":")
    try:
        secret = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (binascii.Error, ValueError):
        secret = b""
    if not (colon and _NAME.fullmatch(name) and len(secret) == KEY_BYTES):
        raise InvalidInput(
            f"payload keys: entry {place} is not NAME:KEY as `mulligan keys new NAME` prints it"
        )
    return PayloadKey(name, secret)
