"""
What a producer hands in with a run, and people with a decision, checked before anything is done.

A program may hand in anything, whatever the annotations say. What would be stored and could not be
read back would stand in the way of every list.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, get_args

from mulligan.errors import InvalidInput
from mulligan.events.facts import Priority
from mulligan.events.payload import canonical
from mulligan.events.prepared import LONGEST_DELAY_MS, is_run_id
from mulligan.events.schedules import PREFIX, is_schedule
from mulligan.schemas.plan import AgentPlan, Plan

MOST_TAGS = 100
LONGEST_TAG = 200
"""Characters. Tags stand in every row of a list."""

LONGEST_REASON = 2_000
"""Characters. Reasons are told to models and stand in events."""
LONGEST_NAME = 200
"""Characters of who decided."""


def check_run_id(run_id: object) -> None:
    """Raises InvalidInput for what can't be a run's id, on a terminal as in the log."""
    if not (isinstance(run_id, str) and is_run_id(run_id) and run_id.isprintable()):
        raise InvalidInput(
            f"{_shown(run_id)} can't be a run's id: use up to 200 printable characters, "
            "none of them a blank, '/', '|', '{' or '}'"
        )
    if is_schedule(run_id):
        raise InvalidInput(
            f"{_shown(run_id)} can't be a run's id: {PREFIX!r} is how schedules are named "
            "in the log"
        )


def check_priority(priority: object) -> None:
    """Raises InvalidInput for a priority that there is not."""
    if type(priority) is not int or priority not in get_args(Priority):
        raise InvalidInput(f"priority {_shown(priority)} is none: use -1 (first), 0 or 1 (last)")


def check_window(window: object) -> None:
    """Raises InvalidInput for what can't be the id of a browser's window."""
    if window is None or (
        isinstance(window, str) and 0 < len(window) <= LONGEST_NAME and window.isprintable()
    ):
        return
    raise InvalidInput(
        f"origin_window {_shown(window)} is none: name a window of `mulligan browser`, such as main"
    )


def check_delay(delay_ms: object) -> None:
    """Raises InvalidInput for what is no delay in whole milliseconds, or one of many years."""
    if type(delay_ms) is not int or not 0 <= delay_ms <= LONGEST_DELAY_MS:
        raise InvalidInput(
            f"delay_ms {_shown(delay_ms)} is none: use whole milliseconds from 0 to "
            f"{LONGEST_DELAY_MS} (ten years)"
        )


def check_version(version: object) -> None:
    """Raises InvalidInput for what is no version of a run."""
    if type(version) is not int or version < 1:
        raise InvalidInput(f"version {_shown(version)} is none: the events of a run count from 1")


def check_tags(tags: object) -> tuple[str, ...]:
    """The tags as a run keeps them. Raises InvalidInput: what they may be."""
    if isinstance(tags, str | bytes) or not isinstance(tags, Collection):
        raise InvalidInput(f"tags {_shown(tags)}: use a tuple of strings, such as ('daily',)")
    if len(tags) > MOST_TAGS:
        raise InvalidInput(f"{len(tags)} tags: a run can have {MOST_TAGS}")
    for tag in tags:
        if not (isinstance(tag, str) and 0 < len(tag) <= LONGEST_TAG and tag.isprintable()):
            raise InvalidInput(
                f"{_shown(tag)} can't be a tag: use 1 to {LONGEST_TAG} printable characters"
            )
    return tuple(tags)


def check_words(what: str, words: object, longest: int) -> None:
    """Raises InvalidInput for what can't be kept as a text of up to `longest` characters."""
    if not isinstance(words, str) or not _is_text(words):
        raise InvalidInput(f"{what} {_shown(words)} is not UTF-8 text")
    if len(words) > longest:
        raise InvalidInput(f"{what} has {len(words):,} characters: use up to {longest:,}")


def _is_text(words: str) -> bool:
    """Whether it can be stored: bytes of a shell that were no text can't."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_key(key: object) -> None:
    """Raises InvalidInput for what can't be the key of a signal."""
    if key is None or (isinstance(key, str) and 0 < len(key) <= LONGEST_NAME and key.isprintable()):
        return
    raise InvalidInput(f"key {_shown(key)} is none: use 1 to {LONGEST_NAME} printable characters")


def check_json(given: Any, what: str = "the input") -> None:
    """Raises InvalidInput for a value that JSON can't hold as it is; `what` names it."""
    try:
        text = canonical(given)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(error).__name__
        raise InvalidInput(f"{what} is no JSON value: {kind}: {str(error)[:200]}") from None
    if b"null" in text and _holds_no_number(given):
        raise InvalidInput(f"{what} holds NaN or an infinity, which JSON does not have")


def check_models(plan: Plan) -> None:
    """
    Hold a run to every agent of it having a model: a plan is frozen, so no worker could add one.

    Raises:
        InvalidInput: neither the workflow nor who asks for it nor the settings name one.
    """
    works = (*(node.work for node in plan.nodes), *plan.agents.values())
    if any(isinstance(work, AgentPlan) and not work.model for work in works):
        raise InvalidInput(
            f"workflow {plan.name!r}: no model is named: use --model PROVIDER/ID (`model` of a "
            "client), `model` in the workflow's settings, or MULLIGAN_MODEL where the run is asked "
            "for"
        )


def check_input(plan: Plan, given: Any) -> None:
    """
    Hold a run's input to the workflow's `input_schema`; without one, to there being an input where
    a prompt reads a part of it (a part of null is null, and would be asked about as such).

    Raises:
        InvalidInput: it does not fit; the message says where.
    """
    if plan.input_schema is None:
        if given is None:
            _refuse_missing_input(plan)
        return
    import jsonschema

    validator = jsonschema.Draft202012Validator(plan.input_schema)
    problem = jsonschema.exceptions.best_match(validator.iter_errors(given))
    if problem is not None:
        raise InvalidInput(
            f"the input does not fit {plan.name}'s input_schema: {problem.json_path}: "
            f"{problem.validator} is not met"
        )


def _refuse_missing_input(plan: Plan) -> None:
    from mulligan.schemas.templates import placeholders

    for node in plan.nodes:
        if isinstance(node.work, AgentPlan):
            for reference, _ in placeholders(node.work.prompt):
                if reference.name == "input" and reference.steps:
                    raise InvalidInput(
                        f"no input is given, and the prompt of {node.id!r} reads {reference.text}"
                    )


def _holds_no_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_holds_no_number, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_no_number, value))


def _shown(value: object) -> str:
    return ascii(value)[:80]
