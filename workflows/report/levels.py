"""
How a draft is redone: faulty statements are written again from their evidence, and what is wrong
after that gives way to the evidence's own words. No other statement changes.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from msgspec.structs import replace

from mulligan.quality.rework import Action, Answer, Job, Jobs, Nothing, Redone
from mulligan.workflows.report.statements import NEW, Entries, cited, is_statement, statements_of

Fixes = list[dict[str, Any]]


def rework(
    level: int,
    draft: Any,
    repairs: Fixes,
    stages: list[list[dict[str, Any]]],
    reconciled: dict[str, Any],
) -> Answer:
    """Level 1 has a writer, level 2 quotes; there is nothing beyond that would be better."""
    entries = {entry["id"]: entry for entry in reconciled["entries"]}
    wanted = [fix for fix in repairs if fix.get("path")]
    if level > 2 or not wanted:
        return Nothing("there is no statement to write again")
    jobs = _jobs(draft, wanted, entries)
    if level == 1 and not stages and jobs:
        return Jobs(tuple(jobs.values()))
    return _redone(draft, wanted, entries, _texts(level, jobs, stages))


def _texts(
    level: int, jobs: dict[str, Job], stages: list[list[dict[str, Any]]]
) -> dict[str, str | None]:
    """By section what the writer gave, None where it gave nothing; at level 2 the evidence."""
    if level > 1:
        return {name: _quoted(job.input["evidence"]) for name, job in jobs.items()}
    outputs: dict[str, Any] = {one["section"]: one["output"] for one in chain(*stages)}
    return {name: (outputs.get(name) or {}).get("text") for name in jobs}


def _jobs(draft: Any, wanted: Fixes, entries: Entries) -> dict[str, Job]:
    """Work for the writer, by section; what names no evidence that there is has no work for it."""
    given = statements_of(draft)
    jobs: dict[str, Job] = {}
    for section in dict.fromkeys(fix["section"] for fix in wanted):
        own = [fix for fix in wanted if fix["section"] == section]
        path = own[0]["path"]
        statement = None if path == NEW else given[_place(path)]
        if statement is not None and not is_statement(statement):
            continue
        found = [entries[section]] if statement is None else cited(statement, entries)
        if found:
            told = {
                "statement": statement["text"] if statement is not None else None,
                "wrong": [fix["instruction"] for fix in own],
                "evidence": found,
            }
            jobs[section] = Job(agent="writer", input=told, section=section)
    return jobs


def _redone(draft: Any, wanted: Fixes, entries: Entries, texts: dict[str, str | None]) -> Redone:
    """Each named statement with its new text, or without it where nothing supports it."""
    statements: list[Any] = list(statements_of(draft))
    actions: list[Action] = []
    for section, path in dict.fromkeys((fix["section"], fix["path"]) for fix in wanted):
        before: Any = None if path == NEW else statements[_place(path)]
        done = Action(type="statement", section=section, before=before)
        if section in texts and not texts[section]:
            actions.append(replace(done, skipped="the writer gave no text"))
            continue
        names = [section] if path == NEW else before["evidence"] if section in texts else []
        after = _statement(texts.get(section), [name for name in names if name in entries])
        actions.append(replace(done, after=after))
        if path == NEW:
            statements.append(after)
        else:
            statements[_place(path)] = after
    return Redone({"statements": [one for one in statements if one is not None]}, tuple(actions))


def _statement(text: str | None, evidence: list[str]) -> dict[str, Any] | None:
    """None: it is cut."""
    return {"text": text.strip(), "evidence": evidence} if text else None


def _quoted(found: list[dict[str, Any]]) -> str:
    return " ".join(f'"{entry["quote"]}"' for entry in found)


def _place(path: str) -> int:
    return int(path.rpartition("/")[2])
