"""
What a workload's `rework` function answers, at each stage of a round.

    Jobs     agents have to work first; it is asked again with their results
    Redone   the round's new draft, and what was done to it
    Nothing  this level has nothing to act on here; no round is spent (RPR-6)

It is called with `level`, `draft`, `quality`, `repairs` and `stages` (the results of the jobs so
far, a list for each stage), and whatever it names of the workflow's values. It may be called again
after a crash and has to answer the same, so it touches nothing outside itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.errors import InvalidInput


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Work for one of the node's agents; `section` is for people."""

    agent: str
    input: Any
    section: str | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """
    Something that was done to the draft, or was not: then `skipped` says why. `before` and `after`
    are the text or the value that was replaced and its replacement (RPR-12).
    """

    type: str
    line: int | None = None
    section: str | None = None
    before: Any = None
    after: Any = None
    skipped: str | None = None


class Jobs(msgspec.Struct, frozen=True, tag="jobs", tag_field="form"):
    """Agents have to work first, all at once."""

    jobs: tuple[Job, ...]


class Redone(msgspec.Struct, frozen=True, tag="redone", tag_field="form"):
    """The round's new draft."""

    draft: Any
    actions: tuple[Action, ...] = ()


class Nothing(msgspec.Struct, frozen=True, tag="nothing", tag_field="form"):
    """Nothing to act on at this level."""

    because: str


Answer = Jobs | Redone | Nothing


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """
    What became of a job: the agent's `output`, or the `error` that ended it, and the calls of tools
    that succeeded on the way.
    """

    agent: str
    section: str | None = None
    output: Any = None
    error: str | None = None
    calls: tuple[dict[str, Any], ...] = ()
    """each {name, arguments, result}"""


def answer_of(value: Any, source: str) -> Answer:
    """
    The answer that a `rework` function gave. Raises InvalidInput that names `source` where it is
    none.
    """
    if isinstance(value, Jobs | Redone | Nothing):
        value = msgspec.to_builtins(value)
    try:
        answer: Answer = msgspec.convert(value, Answer)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{source}: not Jobs, Redone or Nothing: {error}") from None
    if isinstance(answer, Jobs) and not answer.jobs:
        raise InvalidInput(f"{source}: Jobs without a job; say Nothing or Redone")
    return answer
