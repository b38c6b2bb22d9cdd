"""Pure: what is to be made of an act's input and of what was seen after it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mulligan.tools.web_use.bridge.look import Look
from mulligan.tools.web_use.commands import Condition
from mulligan.tools.web_use.results import Evidence, Outcome

__all__ = ["Driven", "before", "dispatched", "holds", "judged", "settled"]


class Driven(msgspec.Struct, frozen=True):
    """
    What is known of an input: whether the driver returned, what it said otherwise, and the trusted
    events that the page saw; None where it can't be asked any more.
    """

    returned: bool
    said: str
    witnessed: tuple[str, ...] | None


def dispatched(driven: Driven) -> bool | None:
    """
    Whether input reached the page, by two witnesses. A driver's time-out alone says nothing: it may
    come after the input was sent. None: that is open.
    """
    if driven.returned or driven.witnessed:
        return True
    return None if driven.witnessed is None else False


def holds(condition: Condition, look: Look) -> bool | None:
    """Whether a condition holds; None where the page shows nothing that would tell."""
    if look.state != "ready":
        return None
    value = condition.value
    match condition.condition:
        case "text_contains":
            return " ".join(value.split()) in look.text
        case "text_not_contains":
            return " ".join(value.split()) not in look.text
        case "url_contains":
            return value in look.url
        case "title_contains":
            return value in look.title
        case "element_present":
            return look.tree.holds(value)


def before(conditions: Sequence[Condition], look: Look) -> tuple[Evidence, ...]:
    """Conditions as they are before an act."""
    return tuple(
        Evidence(condition=one.condition, value=one.value, before=holds(one, look))
        for one in conditions
    )


def settled(evidence: Sequence[Evidence], look: Look) -> tuple[Evidence, ...]:
    """The same, with what holds now."""
    return tuple(
        msgspec.structs.replace(
            one, after=holds(Condition(condition=one.condition, value=one.value), look)
        )
        for one in evidence
    )


def judged(
    sent: bool | None, evidence: Sequence[Evidence], failures: Sequence[Evidence]
) -> Outcome:
    """
    What an act came to. Evidence counts only if all of it was false before and is true now, and no
    sign of failure is there that was not before.
    """
    if sent is False:
        return "not_started"
    if sent is None:
        return "unknown"
    if not evidence and not failures:
        return "done"
    failed = any(one.after is not False and not one.before for one in failures)
    shown = all(one.before is False and one.after is True for one in evidence)
    if failed or not shown:
        return "unknown"
    return "confirmed" if evidence else "done"
