"""Pure: an accessibility snapshot's text, read, masked, cut, and compared."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator

import msgspec

from mulligan.tools.web_use.results import Element

__all__ = ["Line", "Snapshot", "cut", "difference", "masked"]

MASK = "••••"
MAX_BYTES = 32_768
"""Of a snapshot that is handed out; a table of 200 rows has 64 KiB."""
PLACES = frozenset(["row", "listitem", "article", "dialog", "alertdialog", "form", "region"])
"""Roles that tell two elements of the same name apart by what else they hold."""
FIELDS = frozenset(["textbox", "searchbox", "spinbutton", "combobox"])

_LINE = re.compile(
    r'^(?P<indent> *)- (?P<role>[\w/]+)(?: (?P<name>"(?:[^"\\]|\\.)*"))?'
    r"(?P<states>(?: \[[^\]]*\])*)(?P<rest>:.*)?$"
)
_REF = re.compile(r"\[ref=(\w+)\]")


class Line(msgspec.Struct, frozen=True):
    """One node: its depth in spaces, role, name, reference, and the text behind the colon."""

    depth: int
    role: str
    name: str
    ref: str | None
    text: str


class Snapshot:
    """
    What Playwright's `aria_snapshot(mode="ai")` gives: a list in YAML, a node a line. Keys in
    quotes (a line that would be no YAML otherwise) are read as what they quote.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [line for line in map(_line, text.splitlines()) if line is not None]
        self._at = {line.ref: place for place, line in enumerate(self.lines) if line.ref}

    def element(self, ref: str) -> Element | None:
        """
        The element behind a reference. `within` is the nearest row, list item, dialog or form
        around it with all that it says, so that a button of another row is another element.
        """
        place = self._at.get(ref)
        if place is None:
            return None
        line = self.lines[place]
        return Element(ref=ref, role=line.role, name=line.name, within=self._within(place))

    def holds(self, value: str) -> bool:
        """Whether a node of a role and name (`button "Save"`) is there; a role alone will do."""
        role, _, rest = value.strip().partition(" ")
        name = _unquoted(rest.strip()) if rest.strip() else None
        return any(line.role == role and (name is None or line.name == name) for line in self.lines)

    def _within(self, place: int) -> str:
        depth = self.lines[place].depth
        for above in range(place - 1, -1, -1):
            line = self.lines[above]
            if line.depth < depth:
                depth = line.depth
                if line.role in PLACES:
                    return self._told(above)
        return ""

    def _told(self, place: int) -> str:
        """A row or item with all its words; of larger places the name, since they change."""
        line = self.lines[place]
        if line.role not in ("row", "listitem"):
            return " ".join(filter(None, (line.role, line.name)))
        words = [line.role, line.name]
        for below in self.lines[place + 1 :]:
            if below.depth <= line.depth:
                break
            words += [below.name, "" if below.role in FIELDS else below.text]
        return " ".join(filter(None, words))[:500]


def _line(text: str) -> Line | None:
    matched = _LINE.match(_plain_key(text))
    if matched is None:
        return None
    ref = _REF.search(matched["states"] or "")
    rest = (matched["rest"] or "")[1:].strip()
    return Line(
        depth=len(matched["indent"]),
        role=matched["role"],
        name=_unquoted(matched["name"]) if matched["name"] else "",
        ref=ref[1] if ref else None,
        text=_unquoted(rest) if rest.startswith('"') else rest,
    )


def _plain_key(text: str) -> str:
    """`- 'button "a: b" [ref=e1]': x` without the quotes around its key."""
    stripped = text.lstrip(" ")
    if not stripped.startswith("- '"):
        return text
    indent = text[: len(text) - len(stripped)]
    quoted = re.match(r"- '((?:[^']|'')*)'(.*)$", stripped)
    return f"{indent}- {quoted[1].replace(chr(39) * 2, chr(39))}{quoted[2]}" if quoted else text


def _unquoted(text: str) -> str:
    if not (text.startswith('"') and text.endswith('"')):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]


def masked(text: str, passwords: Iterable[str]) -> str:
    """The snapshot with the values of fields that hold one of `passwords` made unreadable."""
    hidden = {" ".join(password.split()) for password in passwords} - {""}
    if not hidden:
        return text
    return "\n".join(_masked(text, hidden))


def _masked(text: str, hidden: set[str]) -> Iterator[str]:
    field: int | None = None
    for raw in text.splitlines():
        line = _line(raw)
        depth = len(raw) - len(raw.lstrip(" "))
        inside = field is not None and depth > field
        if not inside:
            field = line.depth if line is not None and line.role in FIELDS else None
        value = " ".join((line.text if line is not None else raw.strip()).split())
        if (inside or field is not None) and value in hidden:
            yield raw[: raw.index(":") + 1] + f" {MASK}"
        else:
            yield raw


def cut(text: str, limit: int = MAX_BYTES) -> tuple[str, int]:
    """As many whole lines as fit, and how many bytes did not."""
    data = text.encode()
    if len(data) <= limit:
        return text, 0
    end = data.rfind(b"\n", 0, limit + 1)
    kept = data[: max(end, 0)]
    return kept.decode(), len(data) - len(kept)


def difference(before: str, after: str) -> str:
    """What changed, as lines with - and +; nothing where nothing did."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))
