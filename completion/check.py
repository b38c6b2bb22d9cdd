"""
The completion protocol on its own: is this text, from whatever model, a value that fits?
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mulligan.completion.protocol import Mode, complete
from mulligan.completion.verdict import Evidence, Verdict
from mulligan.errors import InvalidInput
from mulligan.schemas.author_schema import schema_problems


def check_output(
    raw: str | bytes,
    schema: Mapping[str, Any] | None = None,
    *,
    finish_reason: str | None = "stop",
    terminal: bool = True,
    completion_tokens: int | None = None,
    max_tokens: int | None = None,
    mode: Mode = "tool",
    accept_missing_closers: bool = False,
    scalar_for_list: bool = False,
) -> Verdict:
    """
    Judge what a model wrote: `Completed` with the value, or the reason why there is none.

    Args:
        raw: the arguments of the call, or the text, as received.
        schema: JSON Schema 2020-12. For one of an object the text may be the object itself or
            `{"output": …, "assistant_message": …}`; for any other, and without a schema, it is
            the value.
        finish_reason: what the provider gave, in its own spelling; None if it gave none.
        terminal: whether the response came to its end, as opposed to a stream that just stopped.
        completion_tokens: as reported; with `max_tokens` it shows a response that hit its cap.
        max_tokens: the cap that was sent.
        mode: `tool` for arguments, `prompt` for text.
        accept_missing_closers: see `mulligan.completion.protocol.complete`.
        scalar_for_list: see there.

    Raises:
        InvalidInput: the schema is no usable JSON Schema 2020-12.

    >>> check_output('```json\\n{"city": "Bern",}\\n```', {"type": "object",
    ...     "properties": {"city": {"type": "string"}}}, mode="prompt").output
    {'city': 'Bern'}
    >>> type(check_output('{"city": "Ber')).__name__
    'TruncatedResponse'
    """
    if schema is not None:
        require_usable(schema)
    evidence = Evidence(finish_reason, terminal, completion_tokens, max_tokens)
    return complete(
        raw,
        schema,
        evidence,
        mode=mode,
        accept_missing_closers=accept_missing_closers,
        scalar_for_list=scalar_for_list,
    )


def require_usable(schema: object) -> None:
    """Raise InvalidInput with all that makes the schema unusable."""
    try:
        problems = _problems(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError):
        problems = tuple(schema_problems(schema))
    if problems:
        raise InvalidInput("the schema can't be used: " + "; ".join(problems))


@lru_cache(maxsize=256)
def _problems(schema: bytes) -> tuple[str, ...]:
    return tuple(schema_problems(msgspec.json.decode(schema)))
