"""
Prompt templates: text with placeholders such as `{item}` or `{collect.items}`.

Only `{reference}` is a placeholder. Any other brace is text, so JSON in a prompt stays as it is;
`{{name}}` is the literal text `{name}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from mulligan.schemas.references import REFERENCE, Reference, parse_reference, resolve

__all__ = ["Placeholder", "placeholders", "render"]

# The longest form first: in `{{{name}}}` the outer braces are text, the inner one a placeholder.
_BRACES = re.compile(
    rf"\{{\{{(?P<framed>\{{{REFERENCE}\}})\}}\}}"
    rf"|\{{(?P<literal>\{{{REFERENCE}\}})\}}"
    rf"|\{{(?P<reference>{REFERENCE})\}}"
)


class Placeholder(NamedTuple):
    """A placeholder of a template; `line_offset` counts the lines of text before it."""

    reference: Reference
    line_offset: int


def placeholders(template: str) -> Iterator[Placeholder]:
    """Every placeholder of `template`, in order."""
    for match in _BRACES.finditer(template):
        reference = _reference(match)
        if reference is not None:
            yield Placeholder(reference, template.count("\n", 0, match.start()))


def render(template: str, values: Mapping[str, Any]) -> str:
    """
    `template` with every placeholder replaced by its value.

    Text goes in as it is, every other value as compact JSON. What was put in is not read again:
    braces in a value stay braces.

    Raises ExpressionFailed where a value is not there.
    """
    return _BRACES.sub(lambda match: _replacement(match, values), template)


def _replacement(match: re.Match[str], values: Mapping[str, Any]) -> str:
    reference = _reference(match)
    if reference is None:
        return match["literal"]
    text = _as_text(resolve(reference, values))
    return f"{{{text}}}" if match["framed"] else text


def _reference(match: re.Match[str]) -> Reference | None:
    framed = match["framed"]
    spelled = match["reference"] or (framed[1:-1] if framed else None)
    return parse_reference(spelled) if spelled else None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
