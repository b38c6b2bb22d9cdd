"""How the code of a function node asks people."""

from __future__ import annotations

from typing import Any

from mulligan.errors import InvalidInput, MulliganError

__all__ = ["LONGEST_HEADER", "InputNeeded"]

LONGEST_HEADER = 12
"""Characters of what a question is called by."""


class InputNeeded(MulliganError):
    """
    Raised by a function node to ask people. Its run waits as `awaiting_input`; once they have
    answered, the function is called again with its parameter `answers`, texts by question id.

    A question is `{id, question, header?, options?}`, with options `{label, description?}`: none,
    or two at least. Its answer is the label of an option, or other words.

    Raises InvalidInput for what is no question.
    """

    def __init__(self, *questions: dict[str, Any]) -> None:
        self.questions = tuple(_whole(one) for one in questions)
        ids = [one["id"] for one in self.questions]
        if not ids or len(set(ids)) < len(ids):
            raise InvalidInput("ask one question at least, each by an id of its own")
        super().__init__(f"an answer to {', '.join(ids)} is needed")


def _whole(given: dict[str, Any]) -> dict[str, Any]:
    """A question with all of its keys."""
    name, text = given.get("id"), given.get("question")
    for key, value in (("id", name), ("question", text)):
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"a question needs {key}: a text that is not blank")
    header = given.get("header", str(name)[:LONGEST_HEADER])
    if not isinstance(header, str) or len(header) > LONGEST_HEADER:
        raise InvalidInput(f"question {name!r}: header has at most {LONGEST_HEADER} characters")
    options = [
        {"label": one["label"], "description": one.get("description", "")}
        for one in given.get("options", ())
    ]
    if len(options) == 1 or len({one["label"] for one in options}) < len(options):
        raise InvalidInput(f"question {name!r}: no options, or at least two that differ")
    return {"id": name, "header": header, "question": text, "options": options}
