"""
The harness tools by which an agent asks people: what is offered, and what fits.
"""

from __future__ import annotations

from typing import Any

from mulligan.completion.validate import compiled
from mulligan.projections.calls import ASK_FREELY, ASK_QUESTIONS
from mulligan.providers.port import ToolOffer

MAX_QUESTIONS, MAX_HEADER, MAX_OPTIONS = 3, 12, 3
_TEXT = {"type": "string", "pattern": r"\S"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_OPTION = _object(label=_TEXT, description={"type": "string"})
_QUESTION = _object(
    id=_TEXT,
    header={**_TEXT, "maxLength": MAX_HEADER},
    question=_TEXT,
    options={"type": "array", "minItems": 2, "maxItems": MAX_OPTIONS, "items": _OPTION},
)
_QUESTIONS = {"type": "array", "minItems": 1, "maxItems": MAX_QUESTIONS, "items": _QUESTION}

OFFERS = (
    ToolOffer(
        name=ASK_FREELY,
        description=(
            "Ask the user for something that only the user can tell, in free text. Call it alone; "
            "the answer is its result."
        ),
        parameters=_object(assistant_message=_TEXT),
    ),
    ToolOffer(
        name=ASK_QUESTIONS,
        description=(
            "Ask the user one to three questions, each with two or three options to choose from; "
            "the user may answer in words of their own too. Call it alone; its result is an object "
            "of the answers by question id."
        ),
        parameters=_object(questions=_QUESTIONS),
    ),
)
"""What an agent that may ask is offered."""

_PARAMETERS = {offer.name: offer.parameters for offer in OFFERS}


def problems(name: str, given: Any) -> list[str]:
    """Where arguments break their schema, without quoting them; then what no schema can say."""
    issues = compiled(_PARAMETERS[name]).issues(given)
    if issues:
        return [f"{issue.path or '/'}: {issue.message}" for issue in issues]
    if name == ASK_FREELY:
        return []
    problems = [] if _differ(given["questions"], "id") else ["/questions: an id is there twice"]
    return problems + [
        f"/questions/{number}/options: a label is there twice"
        for number, question in enumerate(given["questions"])
        if not _differ(question["options"], "label")
    ]


def _differ(things: list[dict[str, str]], key: str) -> bool:
    return len({thing[key] for thing in things}) == len(things)
