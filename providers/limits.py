"""
The arithmetic of a model's context (REC-20): how much history fits, and what may come back.

Two values with two names. The *reserve* is a planning estimate, the room that history leaves for
the output; the *cap* is a parameter of the request. Both follow the formulas of the requirement,
in tokens. What a text takes is estimated by a rule of ours, never by a model's tokenizer: it serves
to plan, and is never shown as usage.
"""

from __future__ import annotations

import msgspec

MOST_RESERVED = 16_384
LEAST_MARGIN = 256
BYTES_PER_TOKEN = 3
"""
Tokenizers of current models give 3.5 to 4.5 bytes a token for English, about 3 for JSON, code and
text of three-byte characters: 3 errs on the side of fitting.
"""
TOKENS_PER_MESSAGE = 4
"""What chat formats add around each message."""


class Window(msgspec.Struct, frozen=True):
    """What a model can take: its context window and its longest output; None: not known."""

    tokens: int | None
    max_output: int | None


def tokens_of(text: str) -> int:
    """An estimate of the tokens in a text: its UTF-8 bytes by `BYTES_PER_TOKEN`, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def margin(window: int) -> int:
    """The room left for what estimates get wrong."""
    return max(LEAST_MARGIN, window // 20)


def reserve(window: int, max_output: int | None, explicit: int | None) -> int:
    """The room for the output: the explicit limit, or a quarter of the window within bounds."""
    if explicit is not None:
        return explicit
    most = MOST_RESERVED if max_output is None else min(max_output, MOST_RESERVED)
    return min(most, max(1, window // 4))


def history_limit(window: Window, explicit: int | None, fixed: int) -> int | None:
    """
    How many tokens the history may take beside `fixed` (system, tools and schema); None where the
    window is not known. Below 0 when `fixed` alone is too much.
    """
    if window.tokens is None:
        return None
    held_back = reserve(window.tokens, window.max_output, explicit) + margin(window.tokens)
    return window.tokens - held_back - fixed


def default_cap(window: Window, fixed: int, history: int) -> int | None:
    """The output cap to send where the workflow sets none; None where either limit is unknown."""
    if window.tokens is None or window.max_output is None:
        return None
    room = window.tokens - margin(window.tokens) - fixed - history
    return min(window.max_output, max(1, room))
