"""
YAML 1.2 text as a plain value, with the line of every key and item, for errors that point.

What JSON can't hold is refused here, with its line: keys that are not text, keys given twice,
tags, infinities. Dates stay text. The text is bounded in bytes, in depth, and in the number of
values after aliases are followed, so that a small file can't become a huge value.
"""

from __future__ import annotations

import math
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mulligan.schemas.problems import Place, Problem

__all__ = ["Document", "read_document"]

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 120
"""Room for an author schema of depth 100 (REC-25) at its place in the file."""
MAX_VALUES = 100_000
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = {_TAG + "str", _TAG + "timestamp"}
_CONTAINER_TAGS = {_TAG + "map", _TAG + "seq"}


class Document:
    """
    What was read: `value` (None where nothing could be read), `problems`, and the lines.

    A document with problems may still hold a value, of the parts that were readable.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self.problems: list[Problem] = []
        self._lines: dict[Place, int] = {}
        self._blocks: set[Place] = set()

    def mark(self, place: Place, node: Node, value: Node) -> None:
        """Note where `place` is written; `value` is its value, if `node` is only its key."""
        self._lines[place] = node.start_mark.line + 1
        if isinstance(value, ScalarNode) and value.style == "|":
            self._lines[place] = value.start_mark.line + 1
            self._blocks.add(place)

    def is_marked(self, place: Place) -> bool:
        """Whether the line of `place` is known."""
        return place in self._lines

    def line(self, problem: Problem) -> int:
        """The line of a problem, from 1: of its place, or of the nearest place around it."""
        if problem.line is not None:
            return problem.line
        place = problem.place if problem.item is None else (*problem.place, problem.item)
        while place and place not in self._lines:
            place = place[:-1]
        if place in self._blocks and place == problem.place:
            return self._lines[place] + 1 + problem.line_offset
        return self._lines.get(place, 1)


def read_document(data: bytes) -> Document:
    """The document in `data` (UTF-8). Never raises for what the text holds."""
    document = Document()
    if len(data) > MAX_BYTES:
        document.problems.append(
            Problem((), f"a workflow file has at most {MAX_BYTES:,} bytes; this has {len(data):,}")
        )
        return document
    try:
        yaml = YAML(typ="safe", pure=True)
        root = yaml.compose(data.decode())
        document.value = _Builder(document, yaml.constructor).build(root, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not YAML: {error.problem or error.context}"
        document.problems.append(Problem((), message, line=mark.line + 1 if mark else 1))
    except (YAMLError, UnicodeDecodeError) as error:
        document.problems.append(Problem((), f"not YAML in UTF-8: {str(error).splitlines()[0]}"))
    except (RecursionError, _TooLarge):
        document.problems.append(
            Problem((), f"too deep or too large: at most {MAX_DEPTH} levels, {MAX_VALUES:,} values")
        )
    return document


class _TooLarge(Exception):
    """The document has more levels or values than are read."""


class _Builder:
    """Turns composed nodes into plain values; aliases are followed each time they are named."""

    def __init__(self, document: Document, constructor: SafeConstructor) -> None:
        self._document = document
        self._constructor = constructor
        self._values = 0

    def build(self, node: Node | None, place: Place) -> Any:
        self._values += 1
        if self._values > MAX_VALUES or len(place) > MAX_DEPTH:
            raise _TooLarge
        if node is None:
            return None
        if not self._document.is_marked(place):
            self._document.mark(place, node, node)
        if isinstance(node, MappingNode | SequenceNode) and node.tag not in _CONTAINER_TAGS:
            return self._refuse(place, node, f"the tag {node.tag} can't be used here")
        match node:
            case MappingNode():
                return self._mapping(node, place)
            case SequenceNode():
                return [self.build(item, (*place, i)) for i, item in enumerate(node.value)]
            case _:
                return self._scalar(node, place)

    def _mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, place)
            if key is None:
                continue
            if key in mapping:
                self._refuse((*place, key), key_node, "this key is given twice")
                continue
            self._document.mark((*place, key), key_node, value_node)
            mapping[key] = self.build(value_node, (*place, key))
        return mapping

    def _key(self, node: Node, place: Place) -> str | None:
        if isinstance(node, ScalarNode) and node.tag in _TEXT_TAGS:
            return str(node.value)
        if node.tag == _TAG + "merge":
            self._refuse(place, node, "merge keys (<<) are not part of YAML 1.2; write them out")
        else:
            self._refuse(place, node, "a key must be text; put it in quotes")
        return None

    def _scalar(self, node: Node, place: Place) -> Any:
        kind = str(node.tag).removeprefix(_TAG)
        if node.tag in _TEXT_TAGS:
            return self._text(str(node.value), node, place)
        if kind in {"null", "bool", "int", "float"}:
            try:
                value = getattr(self._constructor, f"construct_yaml_{kind}")(node)
            except (ValueError, KeyError):
                return self._refuse(place, node, f"this is not of the kind {kind}")
            return self._number(value, node, place)
        return self._refuse(place, node, f"the tag {node.tag} can't be used here")

    def _text(self, value: str, node: Node, place: Place) -> Any:
        if any("\ud800" <= character <= "\udfff" for character in value):
            return self._refuse(place, node, "half of a surrogate pair is not text")
        return value

    def _number(self, value: Any, node: Node, place: Place) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return self._refuse(place, node, "JSON has no such number")
        return value

    def _refuse(self, place: Place, node: Node, message: str) -> None:
        problem = Problem(place, message, line=node.start_mark.line + 1)
        self._document.problems.append(problem)
