"""
The key of one run: encrypts all that it contains, and names its large values.

AES-256-GCM with a fresh random nonce of 96 bits each time; a run would have to write 2^32 things
before two nonces might meet (NIST SP 800-38D, 8.3). The associated data says what a ciphertext is
and where it belongs, so that none can be put in another's place.
"""

from __future__ import annotations

import hmac
import os
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from typing import Any

import msgspec

from mulligan.errors import EventUnreadable
from mulligan.events.payload_keys import KEY_BYTES, NONCE_BYTES

NAMED = "~"
"""How names begin that stand for digests; no digest does."""

_place = msgspec.json.Encoder().encode


class DataKey:
    """
    A run's key. `id` is in the clear beside whatever it encrypted; its `repr` shows nothing else.
    """

    def __init__(self, run: str, id: str, secret: bytes) -> None:  # noqa: A002 - the field's name
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._refusals = (InvalidTag, ValueError)
        self.run = run
        self.id = id
        self._aead: Any = AESGCM(_derived(secret, b"contents"))
        self._naming = _derived(secret, b"names")

    def __repr__(self) -> str:
        return f"DataKey({self.run!r}, {self.id!r})"

    def seal(self, data: bytes, *place: object) -> bytes:
        """Encrypt data that belongs at a place of the run."""
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._aead.encrypt(nonce, data, _place((self.run, *place)))
        return nonce + sealed

    def open(self, sealed: bytes, *place: object) -> bytes:
        """
        What was sealed at that place.

        Raises:
            EventUnreadable: it is not what was sealed there with this key.
        """
        try:
            data: bytes = self._aead.decrypt(
                sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _place((self.run, *place))
            )
        except self._refusals:
            raise EventUnreadable(
                f"run {self.run!r}: {place[0]}: what is stored is not what was encrypted there: "
                "it was damaged, or tampered with"
            ) from None
        return data

    def seal_text(self, data: bytes, *place: object) -> bytes:
        """The same as a JSON string, for places that hold JSON."""
        return b'"' + b2a_base64(self.seal(data, *place), newline=False) + b'"'

    def open_text(self, sealed: bytes, *place: object) -> bytes:
        """
        What was sealed as a JSON string.

        Raises:
            EventUnreadable: as `open`.
        """
        try:
            text = a2b_base64(sealed[1:-1], strict_mode=True)
        except NotBase64:
            text = b""
        return self.open(text, *place)

    def name(self, digest: str) -> str:
        """
        What a digest is replaced by where it stands in the clear: whoever guesses the contents
        can't tell whether the guess is right.
        """
        return NAMED + hmac.digest(self._naming, digest.encode(), "sha256").hex()


def _derived(secret: bytes, use: bytes) -> bytes:
    """A key for one use alone (HKDF's expansion, RFC 5869, one block of it)."""
    assert len(secret) == KEY_BYTES
    return hmac.digest(secret, b"mulligan " + use + b"\x01", "sha256")


def is_sealed_text(data: bytes) -> bool:
    """Whether a stored row or value is a JSON string, as sealed ones are; rows are objects."""
    return data[:1] == b'"'
