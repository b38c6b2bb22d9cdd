"""The names by which a function node's function takes values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mulligan.schemas.problems import did_you_mean
from mulligan.schemas.run_context import RUN_CONTEXT

__all__ = [
    "ANSWERS",
    "DECOMPOSE_NAMES",
    "GATES_NAMES",
    "JOIN_NAMES",
    "KEY",
    "REWORK_NAMES",
    "call_problems",
    "names_taken",
]

KEY = "idempotency_key"
"""The parameter by which a function or tool gets the key of its call."""

ANSWERS = "answers"
"""The parameter by which a function node gets what people answered to its questions."""

GATES_NAMES = ("draft",)
"""What a repair loop gives its gates, before the workflow's values."""
REWORK_NAMES = ("draft", "level", "quality", "repairs", "stages")
"""What a repair loop gives its `rework`, before the workflow's values."""

DECOMPOSE_NAMES = ("prompt", "cause")
"""What a `decompose` step is given, before the workflow's values."""
JOIN_NAMES = ("parts",)
"""What a `join` is given, before the workflow's values."""


def names_taken(function: Callable[..., Any], offered: Iterable[str]) -> tuple[str, ...]:
    """
    Those of the offered names, the key, the run's context and people's answers that `function`
    takes. One that takes any name is given all but the last two, which it has to ask for.
    """
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    taken = [name for name in (*offered, KEY) if takes_any or name in parameters]
    return (*taken, *(name for name in (RUN_CONTEXT, ANSWERS) if name in parameters))


def call_problems(path: str, function: Callable[..., Any], offered: Iterable[str]) -> Iterator[str]:
    """Why `function` can't be called with (some of) the offered names."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        yield f"{path} has no signature that can be read; wrap it in a function that has"
        return
    given = sorted(offered)
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            yield f"{path} takes {parameter.name!r} by position; values are given by name"
        elif _is_missing(parameter, given):
            hint = did_you_mean(parameter.name, given)
            yield f"{path} takes {parameter.name!r}, but is given only {', '.join(given)}{hint}"


def _is_missing(parameter: inspect.Parameter, given: list[str]) -> bool:
    by_name = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    required = by_name and parameter.default is parameter.empty
    return required and parameter.name not in (*given, KEY, RUN_CONTEXT, ANSWERS)
