"""
Docstrings as Sphinx reads them. They are written as plain text: `Args:` and `Raises:` begin lists,
and what is indented after an empty line is code.
"""

from __future__ import annotations

import re
from typing import Any

_FIELDS = {"Args:": "param", "Raises:": "raises"}
_ITEM = re.compile(r" {4}(\w[\w., ]*): (.*)")


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make the change in place, as autodoc wants it."""
    lines[:] = marked(lines)


def marked(lines: list[str]) -> list[str]:
    """The same lines, with the marks of reStructuredText for lists of fields and for code."""
    made: list[str] = []
    field = ""
    for line in lines:
        item = _ITEM.fullmatch(line) if field else None
        if line in _FIELDS:
            field = _FIELDS[line]
        elif item is not None:
            made.append(f":{field} {item[1]}: {item[2]}")
        else:
            if line.strip() and not line.startswith(" "):
                field = ""
            if not field and _begins_code(line, made):
                made += ["::", ""]
            made.append(line)
    return made


def _begins_code(line: str, before: list[str]) -> bool:
    if not line.startswith("    ") or (before and before[-1].strip()):
        return False
    last = next((line for line in reversed(before) if line.strip()), "")
    return not last.startswith((" ", "- ", ":"))
