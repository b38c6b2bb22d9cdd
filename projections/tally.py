"""
What went wrong in a run and what was done about it, as numbers: for metrics, and for lists.

A name is `kind:reason`. Kinds: `model` (a request failed, or was lost: `interrupted`), `output`
(rejected), `tool`, `node` (failed), `retry` (an attempt was reserved), `repair` (what became of an
overseer's), `round` (of repair, by its level), `pause` (of a node).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from mulligan.events import facts

_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,63}")
MOST_NAMES = 50
"""Codes of tools are their authors' own: beyond so many names they count as `other`."""


_NAMES: dict[type[facts.Fact], Callable[[Any], str]] = {
    facts.ModelFailed: lambda fact: _name("model", fact.cause.kind),
    facts.ModelInterrupted: lambda fact: "model:interrupted",
    facts.OutputRejected: lambda fact: _name("output", fact.kind),
    facts.ToolFailed: lambda fact: _name("tool", fact.code),
    facts.ToolOutcomeUnknown: lambda fact: "tool:outcome_unknown",
    facts.NodeFailed: lambda fact: _name("node", fact.code),
    facts.NodePaused: lambda fact: _name("pause", fact.reason),
    facts.AllowanceReserved: lambda fact: _name("retry", fact.reason),
    facts.OutputRepairSucceeded: lambda fact: "repair:succeeded",
    facts.OutputRepairFailed: lambda fact: _name("repair", fact.reason),
    facts.RepairRoundStarted: lambda fact: f"round:level_{fact.level}",
}
COUNTED = tuple(_NAMES)
"""The kinds of facts that count."""


def counted(fact: facts.Fact) -> str | None:
    """The name under which a fact counts, if it does."""
    name = _NAMES.get(type(fact))
    return None if name is None else name(fact)


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
