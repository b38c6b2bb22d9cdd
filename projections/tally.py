"""
What went wrong in a run and what was done about it, as numbers: for metrics, and for lists.

A name is `kind:reason`. Kinds: `model` (a request failed, or was lost: `interrupted`), `output`
(rejected), `tool`, `node` (failed), `retry` (an attempt was reserved), `repair` (what became of an
overseer's), `round` (of repair, by its level), `pause` (of a node).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mulligan.events import facts

_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,63}")
MOST_NAMES = 50
"""Codes of tools are their authors' own: beyond so many names they count as `other`."""


def counted(fact: facts.Fact) -> str | None:
    """The name under which a fact counts, if it does."""
    match fact:
        case facts.ModelFailed():
            return _name("model", fact.cause.kind)
        case facts.ModelInterrupted():
            return "model:interrupted"
        case facts.OutputRejected():
            return _name("output", fact.kind)
        case facts.ToolFailed():
            return _name("tool", fact.code)
        case facts.ToolOutcomeUnknown():
            return "tool:outcome_unknown"
        case facts.NodeFailed():
            return _name("node", fact.code)
        case facts.NodePaused():
            return _name("pause", fact.reason)
        case facts.AllowanceReserved():
            return _name("retry", fact.reason)
        case facts.OutputRepairSucceeded():
            return "repair:succeeded"
        case facts.OutputRepairFailed():
            return _name("repair", fact.reason)
        case facts.RepairRoundStarted():
            return f"round:level_{fact.level}"
        case _:
            return None


def one_more(counts: Mapping[str, int], name: str) -> dict[str, int]:
    """The counts with one more of a name."""
    if name not in counts and len(counts) >= MOST_NAMES:
        name = f"{name.partition(':')[0]}:other"
    return {**counts, name: counts.get(name, 0) + 1}


def unknown_after(unknown: tuple[str, ...], fact: facts.Fact) -> tuple[str, ...]:
    """The calls whose outcome is unknown, after a fact."""
    match fact:
        case facts.ToolOutcomeUnknown() if fact.call_id not in unknown:
            return (*unknown, fact.call_id)
        case facts.EffectReconciled() | facts.ToolSucceeded() | facts.ToolFailed():
            return tuple(call for call in unknown if call != fact.call_id)
        case _:
            return unknown


def _name(kind: str, reason: str) -> str:
    return f"{kind}:{reason if _PLAIN.fullmatch(reason) else 'other'}"
