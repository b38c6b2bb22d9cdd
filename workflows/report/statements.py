"""
Verifying: a draft's statements against the evidence that they name.

A statement says nothing that its evidence does not: it names some, each number and each member in
it stands there, and no evidence goes unsaid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mulligan.quality.report import Fix, Gate, Quality, judged
from mulligan.workflows.report.members import Members
from mulligan.workflows.report.numbers import numbers_in

NEW = "/statements/-"
"""The path of a statement that is missing."""
GATES = ("form", "sources", "numbers", "names", "coverage")

Statement = dict[str, Any]
Entries = dict[str, dict[str, Any]]


def judge(draft: Any, request: dict[str, Any], reconciled: dict[str, Any]) -> Quality:
    """The report on a draft `{statements: [{text, evidence}]}`; whatever is handed in is judged."""
    entries = {entry["id"]: entry for entry in reconciled["entries"]}
    fixes = list(_faults(draft, entries, Members(request["members"])))
    return judged({name: _gate(name, fixes) for name in GATES}, fixes)


def statements_of(draft: Any) -> list[Any]:
    """The statements of a draft, of whatever form they are."""
    found = draft.get("statements") if isinstance(draft, dict) else None
    return found if isinstance(found, list) else []


def is_statement(given: Any) -> bool:
    """Whether it is a text with the ids of evidence."""
    return (
        isinstance(given, dict)
        and isinstance(given.get("text"), str)
        and bool(given["text"].strip())
        and isinstance(given.get("evidence"), list)
        and all(isinstance(one, str) for one in given["evidence"])
    )


def cited(statement: Statement, entries: Entries) -> list[dict[str, Any]]:
    """The evidence that a statement names and that there is, each once."""
    return [entries[one] for one in dict.fromkeys(statement["evidence"]) if one in entries]


def _gate(name: str, fixes: list[Fix]) -> Gate:
    faults = sum(fix.gate == name for fix in fixes)
    return Gate(
        passed=not faults,
        score=round(100 / (1 + faults), 2),
        metric=faults,
        direction="lower",
        threshold=0,
    )


def _faults(draft: Any, entries: Entries, members: Members) -> Iterator[Fix]:
    said: set[str] = set()
    for place, statement in enumerate(statements_of(draft)):
        path, section = f"/statements/{place}", f"statement {place + 1}"
        if not is_statement(statement):
            yield _fix("form", path, section, "it is no text with the ids of its evidence")
            continue
        said.update(statement["evidence"])
        for gate, instruction in _unsupported(statement, entries, members):
            yield _fix(gate, path, section, instruction)
    for name in entries:
        if name not in said:
            yield _fix("coverage", NEW, name, "nothing is said of this evidence")


def _unsupported(
    statement: Statement, entries: Entries, members: Members
) -> Iterator[tuple[str, str]]:
    found = cited(statement, entries)
    if not found or len(found) < len(set(statement["evidence"])):
        yield "sources", "it names evidence that there is not, or none"
    words = " ".join(f"{entry['quote']} {entry['author']}" for entry in found)
    known = {number for _, number in numbers_in(words)}
    for spelled, number in dict.fromkeys(numbers_in(statement["text"])):
        if number not in known:
            yield "numbers", f"the number {spelled} is not in its evidence"
    known_names = {*members.named_in(words), *(entry["author"] for entry in found)}
    for name in members.named_in(statement["text"]):
        if name not in known_names:
            yield "names", f"{name} is not in its evidence"


def _fix(gate: str, path: str, section: str, instruction: str) -> Fix:
    return Fix(gate=gate, kind="statement", instruction=instruction, section=section, path=path)
