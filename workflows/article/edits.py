"""
Edits of a draft: surgical ones by line, and sections replaced as a whole; all else stays byte for
byte, line ends included (RPR-12).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mulligan.quality.report import Fix
from mulligan.quality.rework import Action
from mulligan.workflows.article.gates.document import Document
from mulligan.workflows.article.gates.lines import original_starts
from mulligan.workflows.article.gates.phrases import Finder
from mulligan.workflows.article.gates.rules import Rules
from mulligan.workflows.article.gates.wording import banned, em_dash

EDIT = "edit"
_LINE_END = re.compile(r"\r\n|\n|\r")


class _Cut(NamedTuple):
    """What really changes: from and to where in the draft, and what stands there then."""

    start: int
    end: int
    text: str


def apply_edits(draft: str, fixes: Sequence[Fix], rules: Rules) -> tuple[str, tuple[Action, ...]]:
    """
    The draft with every fix that has `line`, `before` and `after` put in, and what came of each.

    A fix is skipped, and says why, where its `before` is not on its line, is there more than once,
    overlaps another edit, or where what it would put there is itself banned.
    """
    starts = original_starts(draft)
    cuts: list[_Cut] = []
    actions: list[Action] = []
    for fix in fixes:
        if fix.line is None or fix.before is None or fix.after is None:
            continue
        cut = _located(draft, starts, fix)
        if isinstance(cut, _Cut):
            cut = _refused(draft, starts, fix, cut, cuts, rules) or cut
        if isinstance(cut, _Cut):
            cuts.append(cut)
        actions.append(_action(fix, None if isinstance(cut, _Cut) else cut))
    for cut in sorted(cuts, reverse=True):
        draft = draft[: cut.start] + cut.text + draft[cut.end :]
    return draft, tuple(actions)


def _action(fix: Fix, skipped: str | None) -> Action:
    return Action(
        type=EDIT,
        line=fix.line,
        section=fix.section,
        before=fix.before,
        after=fix.after,
        skipped=skipped,
    )


def _located(draft: str, starts: Sequence[int], fix: Fix) -> _Cut | str:
    """Where a fix applies, or why it does not."""
    assert fix.line is not None
    assert fix.before is not None
    assert fix.after is not None
    if not 1 <= fix.line <= len(starts):
        return "the draft has no such line"
    first = starts[fix.line - 1]
    end = starts[fix.line] if fix.line < len(starts) else len(draft)
    wanted = _LINE_END.split(fix.before)
    pattern = re.compile(r"(?:\r\n|\n|\r)".join(map(re.escape, wanted)))
    found = [one for one in _starting(pattern, draft, first, end)]
    if not fix.before or not found:
        return "`before` is not on its line any more"
    if len(found) > 1:
        return "`before` is on its line more than once"
    return _narrowed(draft, found[0], fix.after)


def _starting(pattern: re.Pattern[str], draft: str, first: int, end: int) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    at = first
    while at < end and len(found) < 2:
        one = pattern.search(draft, at)
        if one is None or one.start() >= end:
            break
        found.append(one)
        at = one.start() + 1
    return found


def _narrowed(draft: str, found: re.Match[str], after: str) -> _Cut:
    """Only what differs: the words around it are there to find the place, and may be another's."""
    before = found[0]
    line_end = _LINE_END.search(before)
    if line_end is not None:
        after = _LINE_END.sub(line_end[0], after)
    head = _shared(before, after)
    tail = _shared(before[head:][::-1], after[head:][::-1])
    return _Cut(found.start() + head, found.end() - tail, after[head : len(after) - tail])


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _refused(
    draft: str, starts: Sequence[int], fix: Fix, cut: _Cut, cuts: Sequence[_Cut], rules: Rules
) -> str | None:
    """Why an edit that has its place is not made all the same."""
    if any((cut.start < one.end and one.start < cut.end) or cut[:2] == one[:2] for one in cuts):
        return "another edit changes the same words"
    assert fix.line is not None
    assert fix.before is not None
    last = fix.line + len(_LINE_END.split(fix.before))
    first = starts[max(0, fix.line - 2)]
    end = starts[last] if last < len(starts) else len(draft)
    new = draft[first : cut.start] + cut.text + draft[cut.end : end]
    worse = _wording(new, rules) - _wording(draft[first:end], rules)
    return f"what it would put there is flagged by {min(worse)}" if worse else None


def _wording(part: str, rules: Rules) -> Counter[str]:
    """What the gates on wording say of the lines around an edit, by rule."""
    document = Document(part, rules.structure)
    finder = Finder(rules.slop)
    rules_hit = [hit.rule for gate in (banned, em_dash) for hit in gate(document, rules).hits]
    rules_hit += [
        f"slop.{match.phrase.id}" for block in document.blocks for match in finder.find(block)
    ]
    return Counter(rules_hit)


# --- Sections ------------------------------------------------------------------------------------


def sections_of(draft: str, rules: Rules) -> dict[str, str]:
    """
    The draft by section, in order, each from its heading on; joined they are the draft, byte for
    byte.
    """
    starts = original_starts(draft)
    starts[0] = 0
    document = Document(draft, rules.structure)
    return {
        section.name: draft[
            starts[section.first_line - 1] : _start(starts, section.end_line, draft)
        ]
        for section in document.sections
    }


def _start(starts: Sequence[int], line: int, draft: str) -> int:
    return starts[line - 1] if line <= len(starts) else len(draft)


def replace_sections(draft: str, texts: Mapping[str, str], rules: Rules) -> str:
    """
    The draft with whole sections replaced, and nothing else touched. Each new text ends in as many
    line ends as the one before. Raises KeyError for a name that is no section's.
    """
    parts = sections_of(draft, rules)
    for name, text in texts.items():
        old = parts[name]
        blank = old[len(old.rstrip("\r\n")) :]
        parts[name] = text.rstrip("\r\n") + blank
    return "".join(parts.values())
