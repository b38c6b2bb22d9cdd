"""
Whether a response has fallen into a loop (REC-16), told while it streams.

A loop is the same piece of text over and over: the last `min_bytes` of what was written have a
period of at most `max_period` characters. That is asked at fixed places of the text, every
`CHECK_BYTES`, so the answer does not depend on how the text was cut into chunks; a loop is found
`min_bytes + CHECK_BYTES` after it began at the latest. Repetition that ends before `min_bytes` is
legitimate: a table of zeros, a refrain, an array of equal objects.

How the period is found: if the window has the period p, its tail of twice the longest period stands
p before its end as well; the nearest earlier place where the tail stands is the one candidate, and
one comparison of the window with itself, shifted, decides. Both are single calls on bytes.
"""

from __future__ import annotations

import msgspec

CHECK_BYTES = 1024
BYTES_PER_CHARACTER = 4
"""The most that UTF-8 needs: so long a period in bytes can one of `max_period` characters be."""


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """
    What counts as a loop: the longest period in characters, how often it must stand there, and over
    how many bytes of UTF-8 at least.
    """

    max_period: int = 512
    min_repeats: int = 4
    min_bytes: int = 12 * 1024

    def __post_init__(self) -> None:
        if self.max_period < 1 or self.min_repeats < 2 or self.min_bytes < 1:
            raise ValueError("max_period is at least 1, min_repeats 2, min_bytes 1")


DEFAULT_REPETITION = Repetition()


class LoopDetector:
    """Reads one stretch of text, from one tool boundary to the next."""

    def __init__(self, repetition: Repetition = DEFAULT_REPETITION) -> None:
        self._settings = repetition
        self._longest = repetition.max_period * BYTES_PER_CHARACTER
        # Two of the longest period and one more to look back: no shorter window can be decided.
        least = max(repetition.min_repeats, 3) * self._longest
        self._window = max(repetition.min_bytes, least)
        self._kept = bytearray()
        self._next_check = CHECK_BYTES
        self._seen = 0
        self.found = False

    def feed(self, text: str) -> bool:
        """Take the next piece; whether the text is in a loop by now. Once found, it stays so."""
        data = text.encode("utf-8", "surrogatepass")
        at = 0
        while not self.found and at < len(data):
            piece = data[at : at + self._next_check - self._seen]
            at += len(piece)
            self._seen += len(piece)
            self._kept += piece
            if self._seen == self._next_check:
                self._check()
        return self.found

    def _check(self) -> None:
        self._next_check += CHECK_BYTES
        del self._kept[: -self._window]
        if len(self._kept) == self._window:
            self.found = _is_loop(bytes(self._kept), self._longest)


def _is_loop(window: bytes, longest: int) -> bool:
    """Whether the whole window has a period of at most `longest` bytes."""
    tail = window[-2 * longest :]
    start = len(window) - len(tail)
    before = window.rfind(tail, start - longest, len(window) - 1)
    if before < 0:
        return False
    period = start - before
    return window[period:] == window[:-period]


class LoopWatch:
    """
    Watches one response: its text, its reasoning and the arguments of each call are stretches of
    their own, and each begins anew where a call begins.
    """

    def __init__(self, repetition: Repetition = DEFAULT_REPETITION) -> None:
        self._repetition = repetition
        self._detectors: dict[str, LoopDetector] = {}
        self.found = False

    def feed(self, stretch: str, text: str) -> None:
        """Take a piece of the stretch of this name."""
        if not text:
            return
        detector = self._detectors.get(stretch)
        if detector is None:
            detector = self._detectors[stretch] = LoopDetector(self._repetition)
        self.found = detector.feed(text) or self.found

    def restart(self) -> None:
        """A tool boundary: whatever came before it is no part of a loop after it."""
        self._detectors.clear()
