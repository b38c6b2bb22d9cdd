"""What an article's repair needs of its making, as far as the folder has it."""

from __future__ import annotations

from typing import Any

from mulligan.workflows.article import steps
from mulligan.workflows.article.levels import content_of, title_of

Given = dict[str, Any]
"""{draft, quality?, brief?, research?, angle?, outline?}"""


def report(input: Given) -> dict[str, Any] | None:  # noqa: A002 - the workflow's name for it
    """The report that came with the draft; without one, the gates judge it first."""
    return input.get("quality")


def brief(input: Given) -> dict[str, Any]:  # noqa: A002 - the workflow's name for it
    """The brief; without one, the draft's own title and length stand for it."""
    given = input.get("brief")
    if given is None:
        words = len(input["draft"].split())
        given = {"topic": title_of(input["draft"]), "target_words": max(words, 1)}
    return steps.brief(given)


def research(input: Given) -> dict[str, Any]:  # noqa: A002
    """The findings; without any, nothing may be added to what the draft says."""
    return input.get("research") or {"findings": []}


def angle(input: Given) -> dict[str, Any]:  # noqa: A002
    """The angle and other titles; without it there is no starting from scratch."""
    own = {"title": title_of(input["draft"]), "angle": "", "alternative_titles_considered": []}
    return own | (input.get("angle") or {})


def outline(input: Given) -> dict[str, Any]:  # noqa: A002
    """The outline; without one, the draft's sections as they are."""
    if input.get("outline"):
        given: dict[str, Any] = input["outline"]
        return given
    found = [
        {"heading": name, "purpose": "", "words": max(len(text.split()), 1)}
        for name, text in content_of(input["draft"]).items()
    ]
    return {"sections": found}
