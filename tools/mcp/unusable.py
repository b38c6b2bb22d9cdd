"""Answers of servers that can't be used."""

from __future__ import annotations

__all__ = ["MOST_ANSWER_BYTES", "MOST_BYTES", "MOST_MESSAGES", "UnusableAnswer"]

MOST_ANSWER_BYTES = 16 << 20
"""Of one answer, as of a request to our own API; it is decoded in one piece, for every caller."""

MOST_BYTES = 4 * MOST_ANSWER_BYTES
MOST_MESSAGES = 10_000
"""Of all that a server says before it is sent something again; one that says more floods us."""


class UnusableAnswer(Exception):
    """A server said something that is too large, or that can't be read; the session is over."""
