"""
The completion protocol: from a model's text to a value, or to the reason why not (OUT-1 to OUT-6).

One pure function for the worker's candidate and the overseer's alike. The same text, schema and
evidence give the same verdict everywhere; no exception leaves it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from mulligan.completion.coerce import coerced, null_as_text, whole_numbers
from mulligan.completion.decode import Unusable
from mulligan.completion.envelope import Reading, readings
from mulligan.completion.evidence import from_wire, stopped_by_itself
from mulligan.completion.ladder import Found, climb
from mulligan.completion.unwrap import Open
from mulligan.completion.validate import CompiledSchema, compiled, pointer
from mulligan.completion.verdict import (
    Coercion,
    Completed,
    Evidence,
    InvalidJson,
    Issue,
    SchemaViolation,
    Step,
    TruncatedResponse,
    Verdict,
    WrongEnvelope,
)

_NULL_AS_TEXT = re.compile(r"[\"'“`\\](?:null|None|nil|undefined)[\"'”`\\]")

_NULL_ENDS = tuple(
    word + quote for word in ("null", "None", "nil", "undefined") for quote in "\"'”`\\"
)

Mode = Literal["tool", "prompt"]


def complete(
    raw: str | bytes,
    schema: Mapping[str, Any] | None,
    evidence: Evidence,
    *,
    mode: Mode = "tool",
    accept_missing_closers: bool = False,
    scalar_for_list: bool = False,
) -> Verdict:
    """
    Judge a candidate.

    Args:
        raw: the arguments or the text as received.
        schema: JSON Schema 2020-12, checked before; of an object it has the envelope, None takes
            any JSON value.
        evidence: what the wire said about the response.
        mode: `tool` for the arguments of a call, where nothing at all means no arguments; `prompt`
            for text.
        accept_missing_closers: add closing brackets, and only those, after a complete token, if
            the model stopped by itself.
        scalar_for_list: take `x` for `[x]` where the schema demands an array.
    """
    size = len(raw) if isinstance(raw, bytes) else len(raw.encode("utf-8", "surrogatepass"))
    verdict = from_wire(size, evidence)
    if verdict is not None:
        return verdict
    try:
        shape = None if schema is None else compiled(schema)
        closers = accept_missing_closers and stopped_by_itself(evidence)
        return _judged(raw, shape, mode, closers, scalar_for_list)
    except RecursionError:
        return _invalid(Unusable("too_deep", "nested too deep to be read"), ())


def _judged(
    raw: str | bytes,
    schema: CompiledSchema | None,
    mode: Mode,
    closers: bool,
    scalar_for_list: bool,
) -> Verdict:
    text, damage = _text(raw)
    if mode == "tool" and not text.strip() and not damage:
        return _nothing(schema, scalar_for_list)
    of_object = schema is not None and schema.of_object
    names = schema.properties if schema is not None else frozenset[str]()
    found = climb(text, of_object, names, closers)
    match found:
        case Open(what=what):
            issue = Issue("left_open", message=f"the text ends before its {what} does")
            return TruncatedResponse(issues=(issue,))
        case Unusable():
            return _invalid(damage or found, ())
        case Found(value=value, steps=steps):
            if damage:
                return _invalid(damage, ())
            return _fitted(value, schema, steps, text, scalar_for_list)


def _text(raw: str | bytes) -> tuple[str, Unusable | None]:
    """The text, and what is wrong with its characters; they may be cut in the middle of one."""
    try:
        data = raw if isinstance(raw, bytes) else raw.encode()
        return data.decode(), None
    except UnicodeDecodeError:
        damage = Unusable("not_utf8", "the bytes are no UTF-8")
        return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw, damage
    except UnicodeEncodeError:
        damage = Unusable("lone_surrogate", "the text holds half of a surrogate pair")
        return str(raw).encode("utf-8", "replace").decode(), damage


def _nothing(schema: CompiledSchema | None, scalar_for_list: bool) -> Verdict:
    """No arguments: an empty object, for a schema that requires nothing (OUT-3)."""
    if schema is not None and schema.of_object and schema.fits({}):
        return Completed(output={}, steps=(Step("no_arguments"),))
    return _invalid(Unusable("empty", "there is no text"), ())


def _fitted(
    value: Any,
    schema: CompiledSchema | None,
    steps: tuple[Step, ...],
    text: str,
    scalar_for_list: bool,
) -> Verdict:
    """Envelope and schema: the first reading that fits, as it is or coerced."""
    if schema is None:
        return Completed(output=value, steps=steps)
    found = readings(value, schema)
    if isinstance(found, Issue):
        return WrongEnvelope(issues=(found,), steps=steps)
    verdicts = []
    for reading in found:
        verdict = _validated(reading, schema, steps, text, scalar_for_list)
        if isinstance(verdict, Completed):
            return verdict
        verdicts.append(verdict)
    return verdicts[0]


def _validated(
    reading: Reading,
    schema: CompiledSchema,
    steps: tuple[Step, ...],
    text: str,
    scalar_for_list: bool,
) -> Verdict:
    output = reading.output
    coercions: tuple[Coercion, ...] = ()
    steps = (*steps, Step(reading.name))
    if not schema.fits(output):
        output, coercions = coerced(output, schema, scalar_for_list=scalar_for_list)
        if not coercions or not schema.fits(output):
            return SchemaViolation(issues=schema.issues(output), steps=steps)
    if _may_hold_whole_numbers(text, schema):
        output, more = whole_numbers(output, schema)
        coercions = (*coercions, *more)
    if _may_hold_null_as_text(text) and (place := null_as_text(output, schema)) is not None:
        message = "the word null as text, where the schema takes a real null"
        issue = Issue("null_as_text", path=pointer(place, schema.names), message=message)
        return SchemaViolation(issues=(issue,), steps=steps)
    return Completed(
        output=output,
        assistant_message=reading.assistant_message,
        steps=steps,
        coercions=coercions,
    )


def _may_hold_whole_numbers(text: str, schema: CompiledSchema) -> bool:
    """Whether `7.0` stands behind an integer field's name or in a list; to look closely is dear."""
    at = text.find(".0")
    while at >= 0:
        head = text[max(0, at - 200) : at].rstrip("0123456789").rstrip("- \t\r\n")
        if head.endswith(("[", ",")):
            return True
        if head.endswith(":") and head[:-1].rstrip().endswith(schema.integer_names):
            return True
        at = text.find(".0", at + 2)
    return False


def _may_hold_null_as_text(text: str) -> bool:
    # Searching for plain words is many times as fast as the pattern, which seldom has to be asked.
    return any(end in text for end in _NULL_ENDS) and _NULL_AS_TEXT.search(text) is not None


def _invalid(reason: Unusable, steps: tuple[Step, ...]) -> InvalidJson:
    return InvalidJson(issues=(Issue(reason.code, message=reason.message),), steps=steps)
