"""
The script that a scripted model plays: its format, its parser, its errors.

    on_exhausted: error              # or repeat_last: the last turn that fits is played again
    max_concurrent: 10               # answer 429 to what comes while 10 are under way; no turn
    turns:
      - match: {node: collect, attempt: 1}
        tool_calls: [{name: search, arguments: '{"q": "x"}'}]
      - json: {summary: done}        # a call of submit_output, where the request offers it
        chunks: 7
        fault: {kind: cut, at_byte: 120}

A turn is played once (`times: 3` three times, `times: always` without end). A request takes the
first turn left whose `match` fits it; turns without `match` go, in order, to the requests that none
with a `match` fits. An attempt with a tool round asks twice and so takes two turns; to tell its
requests apart whatever else was asked or repeated, match `rounds` (how many tool rounds the
conversation sent already holds). The overseer's requests are for turns that match them:

      - match: {node: collect, overseer: true}
        json: {repaired_arguments: {output: {summary: done}}}
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from mulligan.errors import InvalidInput
from mulligan.testing.faults import Fault

Positive = Annotated[int, msgspec.Meta(ge=1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
Chunks = Positive | list[Positive | str]

CHUNK_CHARACTERS = 24
"""Characters a chunk where a turn does not say."""


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """
    Which requests a turn is for; what is left out fits all.

    `node`, `attempt`, `invocation` and `request` are those of the `x-mulligan-…` headers, `model`
    that of the body, `rounds` the number of tool rounds in the conversation sent. `overseer` turns
    are for the overseer's requests and no others; without one these get an error, as if no turn
    were left. Their `node` and `attempt` are those whose output is repaired, their `invocation` is
    `<invocation>.overseer.<attempt>`.
    """

    node: str | None = None
    attempt: int | None = None
    invocation: str | None = None
    request: str | None = None
    model: str | None = None
    rounds: int | None = None
    overseer: bool = False

    def fits(self, seen: Match) -> bool:
        """Whether a request of which `seen` is known is one that this is for."""
        wanted = msgspec.structs.asdict(self)
        return all(v is None or v == getattr(seen, k) for k, v in wanted.items())


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function call; `arguments` is sent as it is if a string, else as its JSON text."""

    name: str
    arguments: str | dict[str, Any] = ""
    id: str | None = None


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    One response. Without `text`, `json` and `tool_calls` it is empty. `reasoning` comes before it.

    `chunks` are characters a chunk, a list of such numbers (the last goes on), or the pieces of the
    text themselves. `finish_reason` left out is the natural one, null none at all; `usage` left out
    is a count made up by rule, null is none reported. `delay_ms` passes before the response begins,
    `chunk_delay_ms` before each of its chunks.
    """

    match: Match | None = None
    times: Positive | Literal["always"] = 1
    reasoning: str | None = None
    text: str | None = None
    json: Any = msgspec.UNSET
    tool_calls: list[ScriptedCall] = []
    chunks: Chunks = CHUNK_CHARACTERS
    finish_reason: str | msgspec.UnsetType | None = msgspec.UNSET
    refusal: str | None = None
    usage: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    delay_ms: Milliseconds = 0
    chunk_delay_ms: Milliseconds = 0
    fault: Fault | None = None

    def __post_init__(self) -> None:
        if self.chunks == []:
            raise ValueError("`chunks` is empty; leave it out")
        if self.text is not None and self.pieces and "".join(self.pieces) != self.text:
            raise ValueError("`chunks` as pieces must make up `text`; leave `text` out")

    @property
    def pieces(self) -> list[str]:
        """The chunks that are pieces of text."""
        return (
            [] if isinstance(self.chunks, int) else [c for c in self.chunks if isinstance(c, str)]
        )

    @property
    def sizes(self) -> list[int]:
        """The chunks that are numbers of characters; never empty."""
        sizes = [self.chunks] if isinstance(self.chunks, int) else self.chunks
        return [size for size in sizes if isinstance(size, int)] or [CHUNK_CHARACTERS]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    The turns, what happens to a request that none is left for, and how many requests may be under
    way at once: further ones are answered with status 429, and take no turn.
    """

    turns: list[Turn]
    on_exhausted: Literal["error", "repeat_last"] = "error"
    max_concurrent: Positive | None = None


def read_script(path: Path) -> Script:
    """
    Read a script from a YAML or JSON file.

    Raises:
        InvalidInput: the file can't be read, or is no script; names the line and gives a hint.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{path}: can't read the script: {problem}") from None
    return parse_script(source, str(path))


def parse_script(source: str, name: str = "script") -> Script:
    """
    Parse a script from YAML or JSON text; `name` is what errors call it.

    Raises:
        InvalidInput: as `name:line: where: what is wrong (hint)`.
    """
    tree = _load(source, name)
    if not isinstance(tree, CommentedMap):
        raise InvalidInput(f"{name}:1: a script is a mapping with `turns:`, a list of turns")
    return _convert(_plain(tree), name, tree)


def script_of(script: Script | str | Path | Mapping[str, Any] | Sequence[Any]) -> Script:
    """
    Take a script in any of its forms: parsed, text, a file, a mapping, or a list of turns.

    Raises:
        InvalidInput: it is no script.
    """
    match script:
        case Script():
            return script
        case Path():
            return read_script(script)
        case str():
            return parse_script(script)
        case Mapping():
            return _convert(dict(script), "script", None)
        case _:
            return _convert({"turns": list(script)}, "script", None)


def _load(source: str, name: str) -> Any:
    try:
        return YAML(typ="rt", pure=True).load(source)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        problem = (error.problem or "not YAML").split("\n")[0]
        raise InvalidInput(f"{name}:{line}: not valid YAML: {problem}") from None
    except YAMLError:
        raise InvalidInput(f"{name}:1: not valid YAML") from None


def _plain(node: Any) -> Any:
    """Drop what the parser remembers of lines and quotes."""
    match node:
        case dict():
            return {str(key): _plain(value) for key, value in node.items()}
        case list():
            return [_plain(value) for value in node]
        case bool() | None:
            return node
        case str():
            return str(node)
        case int():
            return int(node)
        case float():
            return float(node)
        case _:
            return str(node)


def _convert(tree: dict[str, Any], name: str, marked: CommentedMap | None) -> Script:
    try:
        return msgspec.convert(tree, Script)
    except msgspec.ValidationError as error:
        raise InvalidInput(_explain(str(error), tree, name, marked)) from None


def _explain(message: str, tree: Any, name: str, marked: CommentedMap | None) -> str:
    """Turn `… - at `$.turns[0].x`` into a line, a place and a hint."""
    what, _, where = message.partition(" - at `$")
    steps = [int(s[1:-1]) if s[0] == "[" else s for s in re.findall(r"\[\d+\]|\w+", where)]
    unknown = re.search(r"unknown field `(.*)`", what)
    hint = ""
    if unknown is not None:
        steps.append(unknown.group(1))
        what, hint = "unknown key", _hint(unknown.group(1), steps[:-1], tree)
    line = _line_of(marked, steps)
    place = re.sub(r"\.\[", "[", ".".join(f"[{s}]" if isinstance(s, int) else s for s in steps))
    return f"{name}{line}: {place or 'script'}: {what[:1].lower()}{what[1:]}{hint}"


def _hint(key: str, parents: list[str | int], tree: Any) -> str:
    known = _keys_at(parents, tree)
    near = difflib.get_close_matches(key, known, n=1)
    return f" (did you mean {near[0]}?)" if near else f" (known: {', '.join(known)})"


def _keys_at(parents: list[str | int], tree: Any) -> list[str]:
    """The keys that a mapping of the script may have."""
    shapes: dict[str, type[msgspec.Struct]] = {"match": Match, "tool_calls": ScriptedCall}
    names = [step for step in parents if isinstance(step, str)]
    if not names:
        return list(Script.__struct_fields__)
    if names[-1] == "fault":
        for step in parents:
            tree = tree[step]
        return ["kind", *_fault_keys(tree["kind"])]
    return list(shapes.get(names[-1], Turn).__struct_fields__)


def _fault_keys(kind: str) -> tuple[str, ...]:
    shapes: tuple[type[msgspec.Struct], ...] = Fault.__args__
    return next(s.__struct_fields__ for s in shapes if s.__struct_config__.tag == kind)


def _line_of(marked: CommentedMap | None, steps: list[str | int]) -> str:
    """The line of the deepest step that the source has, as `:line`."""
    if marked is None:
        return ""
    node: Any = marked
    line = node.lc.line
    for step in steps:
        if isinstance(node, CommentedMap) and step in node:
            line = node.lc.key(step)[0]
        elif isinstance(node, CommentedSeq) and isinstance(step, int):
            line = node.lc.item(step)[0]
        else:
            break
        node = node[step]
    return f":{line + 1}"
