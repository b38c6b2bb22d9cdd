"""
How an article is redone at each level: lines → sections → a stage → all sections → a new title.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mulligan.quality.report import Fix
from mulligan.quality.rework import Action, Answer, Job, Jobs, Nothing, Redone
from mulligan.workflows.article.edits import apply_edits, replace_sections, sections_of
from mulligan.workflows.article.gates.document import CONTENT, Document
from mulligan.workflows.article.gates.lines import Lines
from mulligan.workflows.article.judging import RULES
from mulligan.workflows.article.references import listed
from mulligan.workflows.article.steps import put_together, with_heading, without

MOST_SECTIONS = 3
"""So many sections are rewritten in one round: those that contribute most to the failures."""
CONTEXT_LINES = 1
"""Lines shown around one that the editor mends."""
VOICE_TARGET = 15
"""The slop score that a voice rewrite aims at; the gate passes below 20."""

STAGE_OF = {
    "headings": "structure",
    "format": "structure",
    "capsules": "structure",
    "citations": "references",
    "references": "references",
}
"""The stage that a gate's failure goes back to; all others are of the voice."""

Fixes = list[dict[str, Any]]
Stages = list[list[dict[str, Any]]]


def rework(
    level: int,
    draft: str,
    repairs: Fixes,
    quality: dict[str, Any],
    stages: Stages,
    **made: Any,
) -> Answer:
    """Redo an article at a level; `made` are the outputs of the nodes before: brief, outline, …"""
    match level:
        case 1:
            return _lines(draft, repairs, stages)
        case 2:
            return _sections(draft, repairs, stages, made)
        case 3:
            return _stage(draft, repairs, quality, stages, made)
        case 4:
            return _anew(draft, stages, made, made["outline"], title_of(draft))
        case _:
            return _from_scratch(draft, repairs, stages, made)


# --- Level 1: lines ------------------------------------------------------------------------------


def _lines(draft: str, repairs: Fixes, stages: Stages) -> Answer:
    wanted = [one for one in repairs if one["line"] and (one["level_hint"] or 1) == 1]
    open_ones = [one for one in wanted if one["after"] is None]
    if not wanted:
        return Nothing("no repair points at a line")
    if open_ones and not stages:
        return Jobs((Job(agent="editor", input=_faults(draft, open_ones)),))
    fixes = [msgspec.convert(one, Fix) for one in wanted if one["after"] is not None]
    for result in stages[0] if stages else ():
        fixes += [_by_agent(call["arguments"]) for call in result["calls"]]
    text, actions = apply_edits(draft, fixes, RULES)
    return Redone(text, actions)


def _faults(draft: str, open_ones: Fixes) -> dict[str, Any]:
    lines = Lines(draft).lines
    shown = {
        at: lines[at - 1]
        for one in open_ones
        for at in range(one["line"] - CONTEXT_LINES, one["line"] + CONTEXT_LINES + 1)
        if 1 <= at <= len(lines)
    }
    return {
        "lines": [{"line": at, "text": text} for at, text in sorted(shown.items())],
        "faults": [
            {"line": one["line"], "words": one["before"], "fault": one["instruction"]}
            for one in open_ones
        ],
    }


def _by_agent(given: dict[str, Any]) -> Fix:
    return Fix(
        gate="",
        kind="edit",
        instruction="",
        line=given["line"],
        before=given["before"],
        after=given["after"],
    )


# --- Level 2: sections ---------------------------------------------------------------------------


def _sections(draft: str, repairs: Fixes, stages: Stages, made: dict[str, Any]) -> Answer:
    there = content_of(draft)
    counted = Counter(one["section"] for one in repairs if one["section"] in there)
    chosen = [heading for heading, _ in counted.most_common(MOST_SECTIONS)]
    if not chosen:
        return Nothing("no repair points at a section")
    if not stages:
        return Jobs(tuple(_writing(one, there[one], repairs, made, "writer") for one in chosen))
    return _replaced(draft, stages[-1], "section", made)


def _writing(
    heading: str, text: str | None, repairs: Fixes, made: dict[str, Any], agent: str
) -> Job:
    spec: dict[str, Any] = next(
        (one for one in made["outline"]["sections"] if one["heading"] == heading), {}
    )
    given = {
        "heading": f"## {heading}",
        "text": text,
        "purpose": spec.get("purpose"),
        "words": spec.get("words"),
        "faults": [one["instruction"] for one in repairs if one["section"] == heading],
        "limits": "between 0.9 and 1.1 times its words; no word or dash that was named as a fault",
        "findings": made["research"]["findings"],
        "citations": made["brief"]["citations"],
    }
    return Job(agent=agent, input=given, section=heading)


def _replaced(
    draft: str, results: Iterable[dict[str, Any]], kind: str, made: dict[str, Any]
) -> Redone:
    """Sections written again, and in the list of references what they newly cite."""
    there = content_of(draft)
    rewritten: dict[str, str] = {}
    actions = []
    for result in results:
        heading, output = result["section"], result["output"]
        new = with_heading(_heading(there, heading), output["text"]) if output else None
        if new is not None:
            rewritten[heading] = new
        actions.append(
            Action(
                type=kind,
                section=heading,
                before=there.get(heading),
                after=new,
                skipped=None if new is not None else f"not written: {result['error']}",
            )
        )
    again, references = listed(replace_sections(draft, rewritten, RULES), _sources(made))
    return Redone(again, (*actions, *references))


def _heading(sections: dict[str, str], name: str) -> str:
    """The line that heads a section now; its name may tell it from another one of that heading."""
    first, _, _ = sections.get(name, "").partition("\n")
    return first if first.startswith("#") else name


def _sources(made: dict[str, Any]) -> list[dict[str, Any]]:
    return list(made["brief"]["sources"])


# --- Level 3: a stage ----------------------------------------------------------------------------


def _stage(
    draft: str, repairs: Fixes, quality: dict[str, Any], stages: Stages, made: dict[str, Any]
) -> Answer:
    failing = [name for name, gate in quality["gates"].items() if not gate["passed"]]
    stage = STAGE_OF.get(failing[0], "voice") if failing else "voice"
    match stage:
        case "structure":
            return _restructured(draft, repairs, stages, made, title_of(draft))
        case "references":
            return _checked(draft, stages, made)
        case _:
            return _humanized(draft, repairs, stages, made)


def _checked(draft: str, stages: Stages, made: dict[str, Any]) -> Answer:
    """Fact check and citation: what nothing supports goes, and the references are made again."""
    if not stages:
        given = {"article": draft, "findings": made["research"]["findings"]}
        return Jobs((Job(agent="checker", input=given),))
    output = stages[-1][0]["output"] or {"unsupported": []}
    kept = without(draft, output["unsupported"])
    actions = [
        Action(type="unsupported", before=sentence, after="", skipped=_absent(draft, sentence))
        for sentence in output["unsupported"]
    ]
    again, references = listed(kept, _sources(made), drop=True)
    return Redone(again, (*actions, *references))


def _absent(text: str, sentence: str) -> str | None:
    return None if sentence.strip() in text else "the sentence is not there"


def _humanized(draft: str, repairs: Fixes, stages: Stages, made: dict[str, Any]) -> Answer:
    content = content_of(draft)
    if not content:
        return Nothing("the article has no section to give a voice to")
    if not stages:
        return Jobs(tuple(_voice(name, text, repairs) for name, text in content.items()))
    return _replaced(draft, stages[-1], "voice", made)


def _voice(heading: str, text: str, repairs: Fixes) -> Job:
    given = {
        "text": text,
        "faults": [one["instruction"] for one in repairs if one["section"] == heading],
        "target": f"a slop score below {VOICE_TARGET}",
    }
    return Job(agent="humanizer", input=given, section=heading)


# --- Levels 4 and 5 ------------------------------------------------------------------------------


def _anew(
    draft: str, stages: Stages, made: dict[str, Any], outline: dict[str, Any], title: str
) -> Answer:
    """Every section written again from its outline, without its old text."""
    if not stages:
        return Jobs(tuple(_fresh(outline, made)))
    return _assembled(draft, stages[-1], outline, title, made)


def _fresh(outline: dict[str, Any], made: dict[str, Any]) -> Iterator[Job]:
    for one in outline["sections"]:
        yield _writing(one["heading"], None, [], {**made, "outline": outline}, "writer")


def _restructured(
    draft: str, repairs: Fixes, stages: Stages, made: dict[str, Any], title: str
) -> Answer:
    """A new outline, and every section written by it."""
    if not stages:
        given = {
            "title": title,
            "outline": made["outline"],
            "faults": [one["instruction"] for one in repairs],
            "words": made["brief"]["target_words"],
        }
        return Jobs((Job(agent="outliner", input=given),))
    outline = stages[0][0]["output"]
    if not outline:
        return Nothing("no other outline was found")
    if len(stages) == 1:
        return Jobs(tuple(_fresh(outline, made)))
    return _assembled(draft, stages[-1], outline, title, made)


def _from_scratch(draft: str, repairs: Fixes, stages: Stages, made: dict[str, Any]) -> Answer:
    others = [
        title
        for title in made["angle"]["alternative_titles_considered"]
        if title.strip() and title != title_of(draft)
    ]
    if not others:
        return Nothing("no alternative title was considered")
    return _restructured(draft, repairs, stages, made, others[0])


def _assembled(
    draft: str,
    results: list[dict[str, Any]],
    outline: dict[str, Any],
    title: str,
    made: dict[str, Any],
) -> Redone:
    old = content_of(draft)
    texts, actions = [], []
    for one, result in zip(outline["sections"], results, strict=True):
        heading, output = one["heading"], result["output"]
        new = with_heading(heading, output["text"]) if output else old.get(heading)
        actions.append(
            Action(
                type="rewrite",
                section=heading,
                before=old.get(heading),
                after=new,
                skipped=None if output else f"not written: {result['error']}",
            )
        )
        if new is not None:
            texts.append(new)
    return Redone(put_together(title, texts, made["brief"]["sources"]), tuple(actions))


def content_of(draft: str) -> dict[str, str]:
    """The sections that hold the article's content, by name: not its title, nor its references."""
    roles = {one.name: one.role for one in Document(draft, RULES.structure).sections}
    parts = sections_of(draft, RULES)
    return {name: text for name, text in parts.items() if roles[name] == CONTENT}


def title_of(draft: str) -> str:
    """The article's title."""
    first = next((line for line in draft.splitlines() if line.startswith("# ")), "# Untitled")
    return first.removeprefix("# ").strip()
