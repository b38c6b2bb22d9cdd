"""A Markdown file's front matter: YAML between two lines of three dashes at its beginning."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mulligan.errors import InvalidInput

FENCE = "---"


def split(text: str) -> tuple[dict[str, Any], str]:
    """
    The front matter as values, and the text after it. Raises InvalidInput where it is no mapping.
    """
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].strip() != FENCE:
        return {}, text
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.strip() == FENCE), None)
    if end is None:
        return {}, text
    try:
        front = YAML(typ="safe").load("".join(lines[1:end])) or {}
    except YAMLError as error:
        raise InvalidInput(f"the front matter is not YAML: {str(error)[:200]}") from None
    if not isinstance(front, dict):
        raise InvalidInput("the front matter is not a mapping of names to values")
    return front, "".join(lines[end + 1 :])
