"""
The one top-level value in a text with prose around it (OUT-3, 2 to 4).

Everything in brackets at the top level is looked at. What can't be a value (`{placeholder}`,
`[1]` where an object is wanted) is prose; of the rest there must be exactly one, and what stands
before and after must not show that it is a piece of something larger.
"""

from __future__ import annotations

import re

import msgspec

from mulligan.completion.decode import MAX_DEPTH, Unusable
from mulligan.completion.respell import spell_word
from mulligan.completion.scan import MAX_SCAN_DEPTH, Group, group_at
from mulligan.completion.unwrap import BLANKS, CODE, EXAMPLE, NEAR, REASONING, Open
from mulligan.completion.verdict import Step

MAX_GROUPS = 1_000
"""More brackets than these at the top level are no answer with prose around it."""


class Place(msgspec.Struct, frozen=True):
    """Where the one candidate stands, its scan, and what was around it."""

    text: str
    group: Group
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return f"Place(<{len(self.text)} characters>, {self.steps})"


_TOO_DEEP = Unusable("too_deep", f"nested deeper than {MAX_DEPTH} levels")
_NONE = Unusable("no_candidate", "the text holds no JSON value")
_SEVERAL = Unusable("several_candidates", "the text holds more than one value, and none is chosen")
_FRAGMENT = Unusable("fragment", "the value is a piece of something larger")
EXAMPLE_ONLY = Unusable("labelled_as_example", "the only value is labelled as a draft or example")
_CALL_IN_PROSE = Unusable("call_in_prose", "the only value is the input of a call, written as text")
LABELLED = Unusable("labelled_as_field", "the value is labelled as one field of the output")

_OPENER = re.compile(r"[{\[]")
_MEMBER = re.compile(r"[\"'“”]\s*[:=]|^[^\S\n]*+[\w\"'“]+\s*:\s*[\"'\d]", re.MULTILINE)
_LAST_LABEL = re.compile(r"([A-Za-z_$][\w$]*)[\"'*`]*\]?\s*:?[=:]\s*\Z")
_REASONING_ENDS = re.compile(rf"\s*</\s*(?:{REASONING})\s*>\s*\Z", re.IGNORECASE)
_CALLS = re.compile(r"(?:[A-Za-z_$][\w.$]*)?\(\s*\Z")
_LAST_TAG = re.compile(r"<([A-Za-z_][\w.:-]*)(?:[=\s][^<>]*)?>[\s`\w]*\Z")
_KNOWN_TAG = re.compile(
    rf"<(/?)\s*({REASONING}|tool_call|tool_calls|function_call|function_calls|tool_use|function"
    r"|invoke|tool|arguments|parameters|parameter|call|output|answer|json|result|final_answer"
    r"|response|submit_output)\b(?:[=\s][^<>]*)?>",
    re.IGNORECASE,
)
_SPECIAL = re.compile(r"<\|?(?:tool|function)[\w▁]*?(begin|end)\|?>|<\|(/?)tool_call\|>")
_PARTIAL_TAG = re.compile(
    r"◁[/\w]*\Z|<[/|]?[A-Za-z_▁|][\w▁|=:.-]*(?:\s+[\w:-]+=[\"']?[\w.:-]*[\"']?|\s+\w+)?\Z|</?\Z|<\|\Z"
)
_LAST_MARK = re.compile(
    r"\[[A-Z][A-Z_]+\]\Z|<\|(?!\w*(?:end|eot|eom|eos|stop|return|call)\w*\|>)\w+\|>\Z"
    r"|<\|(?:channel|start|constrain)\|>\s*\w*\Z"
)
_WHOLE_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_ANNOUNCING = (":", "=", "(", ",", "{", "[")
_ONE_WORD = re.compile(
    r"(?:(?:const|let|var|export|return|await|print)\s+)?[A-Za-z_$][\w$]*(?:[.-][\w$]+)*"
)
_PART_OF_NUMBER = re.compile(r"[-+]|-?\d+(?:\.|(?:\.\d+)?[eE][+-]?)")
_GOES_ON = re.compile(r"\s*(?:[,:=\"'“\[]|\.\w)|[^\S\n]*(?:[(+|&?*]|(?:if|for)\b.*\b(?:else|in)\b)")
"""Text behind a value that makes it a part of code or of a larger value; the last on its line."""

_GOES_BEFORE = re.compile(
    r"(?:[!=<>]=|&&|\|\||=>|\blambda\b[^\n]*:|^\s*:|<!--|(?<!:)//[^\n]*|^\s*/\*[^\n]*)\s*\Z"
)
"""Code before a value that makes it an operand, or a comment."""

_ACTION = re.compile(r"^\s*\**action(?:[ _]?input)?\**\s*(?::|\n|\Z)", re.IGNORECASE | re.MULTILINE)
_VOID = frozenset({"br", "hr", "p", "b", "i", "em", "strong", "s"})


def locate(text: str, wants_object: bool, names: frozenset[str]) -> Place | Open | Unusable:
    """
    The one candidate in the text.

    Args:
        wants_object: whether only an object can be the output.
        names: the schema's property names; a value labelled with one is that field, no output.
    """
    if text.lstrip(BLANKS)[:1] == '"' and _WHOLE_STRING.match(text.lstrip(BLANKS)) is None:
        return Open("string")
    found: list[Group] = []
    prose: list[tuple[int, int]] = []
    at = 0
    for _ in range(MAX_GROUPS):
        opener = _OPENER.search(text, at)
        if opener is None:
            break
        group = group_at(text, opener.start())
        if group.depth > MAX_SCAN_DEPTH:
            return _TOO_DEEP
        if _is_prose(text, group, wants_object):
            prose.append((group.start, group.end))
        elif group.left_open:
            return _left_open(text, group, found)
        else:
            found.append(group)
        at = group.end
    else:
        return _SEVERAL
    if len(found) > 1:
        return _SEVERAL
    if not found:
        return _without_value(text)
    return _with_surroundings(text, found[0], prose, names)


class StillOpen(Open, frozen=True):
    """A candidate that ends before its closers, alone at the end of the text."""

    text: str
    group: Group

    def __repr__(self) -> str:
        return f"StillOpen({self.what!r}, <{len(self.text)} characters>)"


def _left_open(text: str, group: Group, before: list[Group]) -> Open:
    if before or text[: group.start].strip(BLANKS):
        return Open(group.left_open or "object")
    return StillOpen(
        group.left_open or "object", text[group.start :].rstrip(BLANKS), group.rebased()
    )


def _is_prose(text: str, group: Group, wants_object: bool) -> bool:
    """Whether a bracket at the top level can't be a value."""
    if group.left_open or len(group.tokens) <= 2:
        return text[group.start] == "[" and wants_object and not group.left_open
    if text[group.start] == "{":
        return not any(token.kind in ("string", "colon") for token in group.tokens)
    holds_object = any(text[token.start] == "{" for token in group.tokens if token.kind == "open")
    if wants_object:
        return not holds_object
    words = [text[token.start : token.end] for token in group.tokens if token.kind == "word"]
    holds_text = any(token.kind == "string" for token in group.tokens)
    return not holds_object and not holds_text and any(spell_word(w) is None for w in words)


def _without_value(text: str) -> Open | Unusable:
    """No candidate: was the text cut before it, or is there none?"""
    bare = text.strip(BLANKS)
    end = bare[-NEAR:]
    if _unclosed_tag(bare, "") or _PARTIAL_TAG.search(end) or _LAST_MARK.search(end):
        return Open("tag")
    if not bare.strip("`~'\"([{"):
        return Open("wrapping") if bare else _NONE
    if bare.endswith(_ANNOUNCING) or _ONE_WORD.fullmatch(bare) or _PART_OF_NUMBER.fullmatch(bare):
        return Open("sentence")
    return _NONE


def _with_surroundings(
    text: str, group: Group, prose: list[tuple[int, int]], names: frozenset[str]
) -> Place | Open | Unusable:
    head, tail = _without(text, 0, group.start, prose), _without(text, group.end, len(text), prose)
    steps = [Step("prose")] if head.strip(BLANKS) or tail.strip(BLANKS) else []
    if re.match(r"\s*[}\]]", tail):
        tail = re.sub(r"\A\s*[}\]]", "", tail)
        steps = [Step("surplus_closer")]
        indented = re.search(r"\n\s+[}\]]\Z", text[group.start : group.end])
        if head.strip(BLANKS) or indented or re.match(r"\s*(?:[^\s`;<]|<[^|/])", tail):
            return _FRAGMENT
    if (verdict := _head_and_tail(head.rstrip(BLANKS), _closed_up(tail), names)) is not None:
        return verdict
    return Place(text[group.start : group.end], group.rebased(), tuple(steps))


def _without(text: str, start: int, end: int, cuts: list[tuple[int, int]]) -> str:
    """The text between two places, with `()` for each bracket that is prose."""
    pieces = []
    for cut_start, cut_end in cuts:
        if start <= cut_start < end:
            pieces.append(text[start:cut_start])
            start = cut_end
    return "()".join([*pieces, text[start:end]])


def _closed_up(tail: str) -> str:
    """The text without blanks before it, but for a newline if it begins on a line of its own."""
    bare = tail.lstrip(BLANKS)
    return "\n" + bare if bare and "\n" in tail[: len(tail) - len(bare)] else bare


def _head_and_tail(head: str, tail: str, names: frozenset[str]) -> Open | Unusable | None:
    """What the surroundings say against the candidate."""
    while (opening := _CALLS.search(head, max(0, len(head) - NEAR))) is not None:
        head = head[: opening.start()].rstrip(BLANKS)
        if not tail.lstrip().startswith(")"):
            return _FRAGMENT if tail.strip() else Open("call")
        tail = _closed_up(tail.lstrip()[1:])
    near = head[-NEAR:]
    label = _LAST_LABEL.search(near)
    if label and (label[1] in names or near[: label.start()].rstrip(BLANKS).endswith("(")):
        return LABELLED
    if (quote := head[-1:]) and quote in "\"'":
        if not tail.lstrip().startswith(quote):
            return _FRAGMENT if tail.strip() else Open("string")
        head, tail = head[:-1], _closed_up(tail.lstrip()[1:])
    if _unclosed_tag(head, tail) or _PARTIAL_TAG.search(tail, max(0, len(tail) - NEAR)):
        return Open("tag")
    if not head and _REASONING_ENDS.match(tail):
        return Open("reasoning block")
    if tail.endswith(_ANNOUNCING):
        return Open("sentence")
    if EXAMPLE.search(near):
        return EXAMPLE_ONLY
    if _ACTION.search(near):
        return _CALL_IN_PROSE
    return _FRAGMENT if _is_fragment(head, tail) else None


def _is_fragment(head: str, tail: str) -> bool:
    if head.count('"') % 2 or head.endswith((",", "{", "[")) or re.search(r"[}\]]", head + tail):
        return True
    if _GOES_ON.match(tail) or _GOES_BEFORE.search(head):
        return True
    if _MEMBER.search(head) or _MEMBER.search(tail):
        return True
    marks = head.split("```")
    inside_fence = len(marks) % 2 == 0
    code = marks[-1].partition("\n")[2] if "\n" in marks[-1] else ""
    return inside_fence and CODE.fullmatch(code) is None


def _unclosed_tag(head: str, tail: str) -> bool:
    """Whether a tag that is known, or that stands right before the candidate, is not closed."""
    last = _LAST_TAG.search(head, max(0, len(head) - NEAR))
    if last and last[1].lower() not in _VOID and f"</{last[1]}" not in tail.replace(" ", ""):
        return True
    return _opened(head + "\0" + tail)


def _opened(text: str) -> bool:
    balance: dict[str, int] = {}
    for tag in _KNOWN_TAG.finditer(text):
        name = tag[2].lower()
        balance[name] = max(0, balance.get(name, 0) + (-1 if tag[1] else 1))
    for special in _SPECIAL.finditer(text):
        ends = special[1] == "end" or special[2] == "/"
        balance["|"] = max(0, balance.get("|", 0) + (-1 if ends else 1))
    return any(balance.values())
