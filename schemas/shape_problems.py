"""pydantic's errors about a definition, as problems that a workflow's author reads."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mulligan.schemas.problems import Place, Problem, did_you_mean
from mulligan.schemas.workflow import (
    AgentDefinition,
    AgentNode,
    FunctionNode,
    FunctionRetry,
    Limits,
    RepairNode,
    RetryPolicy,
    Settings,
    WaitNode,
    WorkflowDefinition,
)

__all__ = ["shape_problems"]

_KINDS: dict[str, type[BaseModel]] = {
    "agent": AgentNode,
    "function": FunctionNode,
    "repair": RepairNode,
    "wait": WaitNode,
}
_SECTIONS: dict[str, type[BaseModel]] = {
    "settings": Settings,
    "settings.retry": RetryPolicy,
    "settings.limits": Limits,
}
_TEXTS = {
    "missing": "missing",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "union_tag_not_found": "missing; a node's kind is agent, function, repair or wait",
}


def shape_problems(error: ValidationError) -> list[Problem]:
    """One problem for each of pydantic's errors, at its place, with a hint where one is near."""
    return [_problem(detail) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails) -> Problem:
    loc = detail["loc"]
    place = _place(loc)
    match detail["type"]:
        case "extra_forbidden":
            key = str(place[-1])
            return Problem(place, f"unknown key{did_you_mean(key, _keys(loc))}")
        case "union_tag_invalid":
            tag = str(detail.get("ctx", {}).get("tag"))
            return Problem(
                (*place, "kind"),
                f"must be agent, function, repair or wait{did_you_mean(tag, _KINDS)}",
            )
        case "union_tag_not_found":
            return Problem((*place, "kind"), _TEXTS["union_tag_not_found"])
        case "string_pattern_mismatch":
            return Problem(place, _pattern_text(detail))
        case "literal_error":
            return Problem(place, f"must be {detail.get('ctx', {}).get('expected')}{_near(detail)}")
        case "too_short":
            return Problem(place, "a workflow has at least one node")
    return Problem(place, _TEXTS.get(detail["type"]) or _plain(detail["msg"]))


def _place(loc: tuple[int | str, ...]) -> Place:
    """`loc` without what pydantic adds to the document's own path: the kind, and `[key]`."""
    if len(loc) > 2 and loc[0] == "nodes" and loc[2] in _KINDS:
        loc = (*loc[:2], *loc[3:])
    return tuple(step for step in loc if step != "[key]")


def _pattern_text(detail: ErrorDetails) -> str:
    if ":" in str(detail.get("ctx", {}).get("pattern")):
        return f"{_shown(detail['input'])} is not of the form module:attribute"
    return (
        f"{_shown(detail['input'])} is not a name: a letter or _, then letters, digits, _ or -, "
        "64 at most"
    )


def _shown(value: Any) -> str:
    return repr(value if len(str(value)) <= 60 else f"{str(value)[:60]}…")


def _near(detail: ErrorDetails) -> str:
    expected = str(detail.get("ctx", {}).get("expected")).replace(" or ", ", ")
    return did_you_mean(str(detail["input"]), [word.strip("' ") for word in expected.split(",")])


def _plain(message: str) -> str:
    return message.replace("Input should", "must").replace("Value should", "must")


def _keys(loc: tuple[int | str, ...]) -> list[str]:
    """The keys that may stand where `loc` (the place of an unknown one) is."""
    model = _model(loc)
    names = [(name, field.alias) for name, field in model.model_fields.items()]
    return [spelling for pair in names for spelling in pair if spelling]


def _model(loc: tuple[int | str, ...]) -> type[BaseModel]:
    match loc:
        case ("nodes", int(), str() as kind, "retry", _) if kind in _KINDS:
            return FunctionRetry
        case ("nodes", int(), str() as kind, *_) if kind in _KINDS:
            return _KINDS[kind]
        case ("agents", _, *_):
            return AgentDefinition
    section = ".".join(str(step) for step in loc[:-1])
    return _SECTIONS.get(section, WorkflowDefinition)
