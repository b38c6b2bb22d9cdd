"""
The steps from text to one value (OUT-3): strict JSON, what is inside the wrappings, the one value
in prose, mending. It stops at the first step that gives a value, or that says there can be none.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.completion import unwrap
from mulligan.completion.decode import Decoded, Unusable, decode
from mulligan.completion.locate import EXAMPLE_ONLY, LABELLED, Place, StillOpen, locate
from mulligan.completion.mend import mend
from mulligan.completion.scan import group_at
from mulligan.completion.unwrap import BLANKS, Open
from mulligan.completion.verdict import Step


class Found(msgspec.Struct, frozen=True):
    """A value, and the steps that led to it."""

    value: Any
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return f"Found(<{type(self.value).__name__}>, {self.steps})"


def climb(
    text: str, wants_object: bool, names: frozenset[str], closers: bool
) -> Found | Open | Unusable:
    """
    The one value of a text.

    Args:
        wants_object: whether only an object can be the output.
        names: the schema's property names.
        closers: whether closing brackets may be added.
    """
    steps: list[Step] = []
    while True:
        result = _strict(text, wants_object, steps)
        if isinstance(result, str):
            text = result
            steps.append(Step("encoded_twice"))
            continue
        if result is not None:
            return result
        peeled = _peel(text, names, steps)
        if not isinstance(peeled, str):
            break
        text = peeled
    if peeled is not None:
        return peeled
    return _inside(text, wants_object, names, closers, tuple(steps))


def _strict(text: str, wants_object: bool, steps: list[Step]) -> Found | Unusable | str | None:
    """The value of strict JSON; or the text within, if it is a string where an object is due."""
    result = decode(text)
    if not isinstance(result, Decoded):
        return result
    if wants_object and isinstance(result.value, str):
        if not any(opener in result.value for opener in "{["):
            return Found(result.value, (*steps, Step("strict")))
        once = all(step.name != "encoded_twice" for step in steps)
        return result.value if once else None
    return Found(result.value, (*steps, Step("strict")))


def _peel(text: str, names: frozenset[str], steps: list[Step]) -> str | Open | Unusable | None:
    """The inside of the first wrapping that applies and was not taken off before."""
    for peel in unwrap.PEELS:
        name = peel.__name__
        taken = sum(step.name == name for step in steps)
        if taken >= (unwrap.MAX_TAGS if name == "tag" else 1):
            continue
        inside = peel(text)
        if inside is None:
            continue
        if isinstance(inside, str):
            if (refusal := _labelled(text, name, names)) is not None:
                return refusal
            steps.append(Step(name))
        return inside
    return None


def _labelled(text: str, peel: str, names: frozenset[str]) -> Unusable | None:
    """What the name on a wrapping says against its inside."""
    if peel not in ("assignment", "tag"):
        return None
    label = unwrap.assigned(text) if peel == "assignment" else unwrap.tagged(text)
    if label.lower() in unwrap.NOT_THE_ANSWER:
        return EXAMPLE_ONLY
    wraps_answers = peel == "tag" and label.lower() in unwrap.ANSWER_TAGS
    return LABELLED if label in names and not wraps_answers else None


def _inside(
    text: str, wants_object: bool, names: frozenset[str], closers: bool, steps: tuple[Step, ...]
) -> Found | Open | Unusable:
    """The one candidate in what is left, read strictly or mended."""
    if steps and not text.strip(BLANKS):
        return Open("wrapping")
    place = locate(text, wants_object, names)
    if isinstance(place, StillOpen) and closers:
        place = _closed(place)
    if isinstance(place, Open) and place.what == "sentence" and _closed_tag(steps):
        return Unusable("no_candidate", "the text holds no JSON value")
    if not isinstance(place, Place):
        return place
    steps = (*steps, *place.steps)
    result = None if place.text == text else decode(place.text)
    if isinstance(result, Unusable):
        return result
    if isinstance(result, Decoded):
        return Found(result.value, (*steps, Step("strict")))
    if any(step.name in unwrap.STRICT_INSIDE for step in steps):
        return Unusable("malformed", "malformed within quotes or escapes")
    mended = mend(place.text, place.group)
    if isinstance(mended, Unusable):
        return mended
    return Found(mended.value, (*steps, mended.step))


def _closed_tag(steps: tuple[Step, ...]) -> bool:
    """Whether a tag was taken off, whose end shows that what it holds is all there is."""
    return any(step.name == "tag" for step in steps)


def _closed(place: StillOpen) -> Place | StillOpen:
    """The candidate with its closers, if it ends in a complete token that is no number."""
    last = place.group.tokens[-1]
    piece = place.text[last.start : last.end]
    whole = last.kind in ("string", "close") or piece in ("true", "false", "null")
    if place.what not in ("object", "array") or not whole:
        return place
    text = place.text.rstrip(BLANKS) + place.group.pending
    return Place(text, group_at(text, 0), (Step("missing_closers"),))
