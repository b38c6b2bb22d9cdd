"""
What models put around a whole text: a BOM, a reasoning block, a fence, tags, an assignment, a call,
a semicolon, quotes, a second encoding (OUT-3, 2).

Each peel takes the text and gives what is inside, None if it does not apply, or the verdict if it
finds the wrapping left open. A peel never chooses between two insides.
"""

from __future__ import annotations

import json
import re

import msgspec

from mulligan.completion.decode import Decoded, Unusable, decode
from mulligan.completion.scan import group_at

BLANKS = " \t\r\n\f\v\ufeff\u200b\u200c\u200d\u2060\u00a0"


class Open(msgspec.Struct, frozen=True):
    """Something was begun and not ended: the response is cut off."""

    what: str


Peeled = str | Open | Unusable | None

REASONING = (
    r"think|thinking|thought|thoughts|reasoning|reason|reflection|analysis|scratchpad|rationale"
    r"|antthinking|inner_monologue|internal_monologue|chain_of_thought|cot|seed:think|monologue"
)
_REASONING_BLOCKS = tuple(
    (re.compile(opening, re.IGNORECASE), re.compile(closing, re.IGNORECASE))
    for opening, closing in (
        (rf"<\s*(?:{REASONING})\b[^<>]*>", rf"<\s*/\s*(?:{REASONING})\s*>"),
        (r"\[(?:THINK|THINKING|REASONING|THOUGHT)\]", r"\[/(?:THINK|THINKING|REASONING|THOUGHT)\]"),
        (r"◁think▷", r"◁/think▷"),
        (r"<\|(?:begin_of_thought|thinking|think|START_THINKING)\|>",
         r"<\|(?:end_of_thought|/thinking|/think|END_THINKING)\|>"),
        (r"(?:<\|start\|>\w+)?<\|channel\|>(?:analysis|commentary)<\|message\|>", r"<\|end\|>"),
    )
)  # fmt: skip

NOT_THE_ANSWER = frozenset(
    {"example", "examples", "draft", "sample", "input", "observation", "tool_response", "schema"}
)
"""Tags and names that say that what they hold is not meant as the answer."""

ANSWER_TAGS = frozenset({"answer", "output", "result", "response", "json", "final_answer"})
"""Tags around a whole answer, even where a field of it has the same name."""

NEAR = 200
"""So many characters before and after a value are its near surroundings."""

_VALUE_BEGINS = re.compile(r"[{\[\"'`]")
_FENCE = re.compile(r"(?P<mark>```+|~~~+)[ \t]*(?P<language>[\w+#.-]*)[ \t]*(?:\r?\n)?")
EXAMPLE = re.compile(
    r"\b(?:(?:examples?|for instance|samples?|drafts?|placeholders?|template|attempt"
    r"|looks? like(?: this)?|instead of|incorrect|wrong|invalid)\b[^\n.!?]*"
    r"|(?:e\.g\.|something like|such as|call (?:it|\w+) with|do(?: not|n't) use|not(?: this)?"
    r"|observation|expected (?:format|schema)|(?:format|schema) would be),?)"
    r"[:\n`]*\s*[\w`]*\s*\Z",
    re.IGNORECASE,
)
"""A text whose end says that what follows is not meant as the answer."""

CODE = re.compile(
    r"\s*(?://[^\n]*\n\s*|#[^\n]*\n\s*)*"
    r"(?:(?:const|let|var|return)\s+)?(?:[A-Za-z_$][\w$.]*(?:\s*:\s*[\w\[\], .]+)?\s*=\s*)?"
    r"(?:[A-Za-z_$][\w$.]*\(\s*)*\s*"
)
"""What may stand between the begin of a fence and the value in it."""

_TAG = re.compile(
    r"<(?P<name>[A-Za-z_][\w.:-]*)(?:[=\s](?P<attributes>[^<>]*))?>|\[(?P<caps>[A-Z][A-Z_]+)\]"
)
_PARAMETER_NAME = re.compile(r"(?:name\s*=)?\s*[\"']?([\w$-]+)[\"']?\s*")
_VOID = frozenset({"br", "hr", "p", "s"})
_ASSIGNMENT = re.compile(
    r"(?:(?:const|let|var|final|auto|export|return|set)\s+)?(?P<name>[A-Za-z_$][\w$.]*)"
    r"(?:\s*:\s*[\w\[\], .|<>]+?)?\s*:?=(?![=>])\s*"
)
_CALL = re.compile(r"(?:(?:return|await|print)\s+)?[A-Za-z_$][\w$.]*\(")
_KEYWORD_ARGUMENT = re.compile(r"\s*[A-Za-z_]\w*\s*=")
_UNESCAPED_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*+"')
_BARE_QUOTE = re.compile(r'(?<!\\)"')
_FIRST_QUOTE_ESCAPED = re.compile(r"\A[^{\[\"'“]*[{\[](?:\s|\\[nrt]|[{\[])*\\\"")
_PARTIAL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")


def bom(text: str) -> Peeled:
    """A byte order mark."""
    return text[1:] if text.startswith("\ufeff") else None


def reasoning(text: str) -> Peeled:
    """A leading block of reasoning; its opening tag may have gone into the prompt."""
    bare = text.lstrip(BLANKS)
    for opening, closing in _REASONING_BLOCKS:
        if begun := opening.match(bare):
            ended = closing.search(bare, begun.end())
            return bare[ended.end() :] if ended else Open("reasoning block")
    if not any(mark in text for mark in ("</", "< /", "[/", "◁/", "|>")):
        return None
    for _, closing in _REASONING_BLOCKS:
        ended = closing.search(bare)
        if ended and _is_prose(bare[: ended.start()]):
            return bare[ended.end() :]
    return None


def _is_prose(text: str) -> bool:
    """Whether the text begins as no value does and leaves no bracket open."""
    if text.lstrip(BLANKS)[:1] in tuple('{["`'):
        return False
    at = re.search(r"[{\[]", text)
    while at:
        group = group_at(text, at.start())
        if group.left_open:
            return False
        at = re.compile(r"[{\[]").search(text, group.end)
    return True


def fence(text: str) -> Peeled:
    """Exactly one fence, with prose around it at most; its end may be missing."""
    begun = _FENCE.search(text) if "```" in text or "~~~" in text else None
    if begun is None or re.search(r"[{}\[\]\"“]", text[: begun.start()]):
        return None
    body = text[begun.end() :]
    if EXAMPLE.search(text[: begun.start()][-NEAR:]) or not _begins_with_value(body):
        return None
    end = body.rfind(begun["mark"])
    if end < 0:
        return body if body.strip(BLANKS + "`~") else Open("fence")
    inside, behind = body[:end], body[end + len(begun["mark"]) :]
    if re.search(r"[{}\[\]]", behind) or _FENCE.search(inside):
        return None
    return inside


def _begins_with_value(body: str) -> bool:
    """Whether only an assignment, a call or tags stand before the fence's value, if it has one."""
    value = _VALUE_BEGINS.search(body)
    return value is None or CODE.fullmatch(body, 0, value.start()) is not None


def tag(text: str) -> Peeled:
    """One tag around all the rest: `<tool_call>…</tool_call>`, `<function=name>…</function>`."""
    bare = text.strip(BLANKS)
    begun = _TAG.match(bare)
    if begun is None:
        return None
    if begun["caps"]:
        end = f"[/{begun['caps']}]"
        return bare[begun.end() : -len(end)] if bare.endswith(end) else None
    if begun["name"].lower() in _VOID or begun[0].endswith("/>"):
        return None
    ends = list(re.finditer(rf"</\s*{re.escape(begun['name'])}\s*>", bare))
    if not ends:
        return Open("tag")
    behind = bare[ends[-1].end() :]
    if re.search(r"[{}\[\]<>\"]", re.sub(r"<\|[\w▁/]+\|>|</?s>", "", behind)):
        return None
    return bare[begun.end() : ends[-1].start()]


def tagged(text: str) -> str:
    """The name that a tag gives to what it holds: its own, or the parameter's."""
    begun = _TAG.match(text.strip(BLANKS))
    if begun is None or begun["name"] is None:
        return ""
    named = _PARAMETER_NAME.fullmatch(begun["attributes"] or "")
    return named[1] if named and begun["name"].lower() == "parameter" else str(begun["name"])


def assignment(text: str) -> Peeled:
    """`name = …`, with the words that languages put before it."""
    bare = text.strip(BLANKS)
    begun = _ASSIGNMENT.match(bare)
    if begun is None:
        return None
    return bare[begun.end() :] or Open("assignment")


def assigned(text: str) -> str:
    """The name that is assigned to, without what it belongs to; empty if there is none."""
    begun = _ASSIGNMENT.match(text.strip(BLANKS))
    return begun["name"].rpartition(".")[2] if begun else ""


def call(text: str) -> Peeled:
    """`name(…)` around all the rest, with one positional argument."""
    bare = text.strip(BLANKS)
    begun = _CALL.match(bare)
    if begun is None:
        return None
    group = group_at(bare, begun.end() - 1)
    if group.left_open:
        return Open("call")
    if bare[group.end :].strip(BLANKS + ";"):
        return None
    inside = bare[begun.end() : group.end - 1]
    if _KEYWORD_ARGUMENT.match(inside):
        return Unusable("keyword_arguments", "a call with keyword arguments is no JSON")
    return inside


def semicolon(text: str) -> Peeled:
    """`…;`"""
    bare = text.strip(BLANKS)
    return bare[:-1] if bare.endswith(";") and bare[0] in "{[\"'`" else None


def quoted(text: str) -> Peeled:
    """A value in quotes that escape nothing: `'{"a": 1}'`."""
    bare = text.strip(BLANKS)
    inside = bare[1:-1].strip(BLANKS)
    if len(bare) < 4 or bare[0] != bare[-1] or bare[0] not in "\"'`":
        return None
    fits = (inside[:1], inside[-1:]) in (("{", "}"), ("[", "]"))
    return inside if fits and "\\" not in inside else None


def escaped(text: str) -> Peeled:
    r"""
    An object whose every quote has a backslash: `{\"a\": 1}`. Either the whole was escaped as in a
    string, or the quotes alone were; the second is believed where the first gives no JSON.
    """
    if not _FIRST_QUOTE_ESCAPED.search(text) or _BARE_QUOTE.search(text):
        return None
    quotes_alone = text.replace('\\"', '"')
    whole = None if _UNESCAPED_QUOTE.search(text) else _unescaped(text)
    if whole is None or (decode(whole) is None and isinstance(decode(quotes_alone), Decoded)):
        return quotes_alone
    return whole


def _unescaped(text: str) -> str | None:
    try:
        return str(json.loads('"' + _PARTIAL_ESCAPE.sub(r"\1", text) + '"', strict=False))
    except ValueError:
        return None


PEELS = (bom, reasoning, tag, fence, semicolon, assignment, call, quoted, escaped)
MAX_TAGS = 3
"""`<tool_call><function=name>…`: the one peel that may apply more than once."""
STRICT_INSIDE = frozenset({"quoted", "escaped", "surplus_closer"})
"""Steps after which the text must be JSON as it is: mending it would be a guess on a guess."""
