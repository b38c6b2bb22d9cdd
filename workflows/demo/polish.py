"""
The demo's gates and its one level of repair: stock phrases go by rule, sentences that are too long
go to an editor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mulligan.quality.report import Fix, Gate, Quality, judged
from mulligan.quality.rework import Action, Answer, Job, Jobs, Nothing, Redone

STOCK = {"It is worth noting that tea": "Tea", "game-changer": "change"}
"""Phrases that say nothing, and what says it without them."""

MOST_WORDS = 16
"""In a sentence."""

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]")


def judge(draft: str) -> Quality:
    """No stock phrases, no long sentences; every one of them costs 25 points of its gate."""
    fixes = [*_stock(draft), *_long(draft)]
    gates = {name: _gate(name, fixes) for name in ("plain", "short")}
    return judged(gates, fixes)


def _gate(name: str, fixes: list[Fix]) -> Gate:
    faults = sum(fix.gate == name for fix in fixes)
    score = max(100.0 - 25 * faults, 0.0)
    return Gate(passed=not faults, score=score, metric=faults, direction="lower", threshold=0)


def _stock(draft: str) -> Iterator[Fix]:
    for line, text in enumerate(draft.split("\n"), start=1):
        for phrase, plain in STOCK.items():
            if phrase in text:
                yield _fix("plain", f"say {plain!r}", line, phrase, plain)


def _long(draft: str) -> Iterator[Fix]:
    for line, text in enumerate(draft.split("\n"), start=1):
        for sentence in _SENTENCE.findall(text):
            if len(sentence.split()) > MOST_WORDS:
                yield _fix("short", "make it two", line, sentence.strip())


def _fix(gate: str, told: str, line: int, before: str, after: str | None = None) -> Fix:
    return Fix(gate=gate, kind=gate, instruction=told, line=line, before=before, after=after)


def rework(level: int, draft: str, repairs: list[dict[str, Any]], stages: list[Any]) -> Answer:
    """Edit what the report points at; what has no `after` yet gets it from the editor."""
    asked = [fix for fix in repairs if fix["after"] is None]
    if level > 1 or not repairs:
        return Nothing("the demo mends lines only")
    if asked and not stages:
        return Jobs(tuple(Job(agent="editor", input=fix["before"]) for fix in asked))
    found = iter(stages[0] if stages else ())
    actions = []
    for fix in repairs:
        after = fix["after"] or (next(found)["output"] or {}).get("text")
        done = _edit(fix, after, draft)
        if done.skipped is None:
            draft = draft.replace(done.before, done.after, 1)
        actions.append(done)
    return Redone(draft, tuple(actions))


def _edit(fix: dict[str, Any], after: str | None, draft: str) -> Action:
    skipped = None if after else "the editor found no words"
    if fix["before"] not in draft:
        skipped = "`before` is not there any more"
    return Action(type="edit", line=fix["line"], before=fix["before"], after=after, skipped=skipped)
