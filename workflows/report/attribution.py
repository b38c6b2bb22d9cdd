"""
Reconciling: whose each piece of evidence is, whether it is of the week, and which material says so.

An author is who the material or its heading names, if that is a member; or who a person says it is.
Nobody is taken for an author because it is likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from mulligan.errors import ToolError
from mulligan.tools.input_needed import InputNeeded
from mulligan.workflows.report.members import LEAVE_OUT, Members, same_name, stands_in

MOST_OPTIONS = 9

Entry = dict[str, Any]


def reconciled(
    request: dict[str, Any],
    scope: dict[str, Any],
    evidence: dict[str, Any],
    answers: dict[str, str],
) -> dict[str, Any]:
    """
    The evidence of the scope, each entry with its author, and what it covers: by member how many
    entries, by material what became of it.

    Raises InputNeeded where an author is missing, and ToolError `no_evidence` where nothing is
    left to report.
    """
    members = Members(request["members"])
    materials = {one["id"]: one for one in request["materials"]}
    fate = {name: _fate(one, scope) for name, one in materials.items()}
    kept: list[Entry] = []
    missing: dict[str, list[str]] = {}
    for entry in evidence["entries"]:
        name = entry["material"]
        if fate[name] == "out_of_week":
            continue
        author = _author(entry, materials[name], members, answers.get(name))
        if author is None:
            missing.setdefault(name, []).append(entry["author"] or "")
        elif author != LEAVE_OUT:
            kept.append({**entry, "author": author})
    if missing:
        raise InputNeeded(*_questions(missing, materials, members, answers))
    entries = [entry for entry in kept if entry["author"] in scope["members"]]
    if not entries:
        raise ToolError(
            "no_evidence",
            f"nothing in the materials is of {scope['week']} and of {', '.join(scope['members'])}",
        )
    return {"entries": entries, "coverage": _coverage(scope, entries, fate, evidence)}


def _fate(material: dict[str, Any], scope: dict[str, Any]) -> str:
    if material["date"] is None:
        return "undated"
    day = date.fromisoformat(material["date"])
    first, last = (date.fromisoformat(scope[name]) for name in ("first_day", "last_day"))
    return "in_week" if first <= day <= last else "out_of_week"


def _author(
    entry: Entry, material: dict[str, Any], members: Members, answer: str | None
) -> str | None:
    """Who it is of: a member, LEAVE_OUT, or None where that is open."""
    stated = entry["author"] or material["author"]
    by_material = entry["author"] is None or _names(material, entry["author"])
    found = members.find(stated) if by_material else None
    if found is not None or answer is None:
        return found
    return LEAVE_OUT if same_name(answer, LEAVE_OUT) else members.find(answer)


def _names(material: dict[str, Any], author: str) -> bool:
    heading = f"{material['title']}\n{material['author'] or ''}\n{material['text']}"
    return stands_in(author, heading)


def _questions(
    missing: dict[str, list[str]],
    materials: dict[str, dict[str, Any]],
    members: Members,
    answers: dict[str, str],
) -> Iterator[dict[str, Any]]:
    """A question for each material; its answer counts for all in it that has no author."""
    every = [one.name for one in members]
    offered = every if len(every) < MOST_OPTIONS else []
    for name, stated in missing.items():
        told = "; ".join(dict.fromkeys(f"it names {one[:80]!r}" for one in stated if one))
        if name in answers:
            told = f"{answers[name][:80]!r} is no member"
        why = told or "it names nobody"
        options = [*({"label": one} for one in offered), {"label": LEAVE_OUT}]
        yield {
            "id": name,
            "question": f"Who is the author of {materials[name]['title'][:200]!r}? ({why}; the "
            f"members are {', '.join(every)}; or {LEAVE_OUT!r})",
            "options": options if len(options) > 1 else [],
        }


def _coverage(
    scope: dict[str, Any], entries: list[Entry], fate: dict[str, str], evidence: dict[str, Any]
) -> dict[str, Any]:
    found = {entry["material"] for entry in evidence["entries"]}
    used = {entry["material"] for entry in entries}
    return {
        "week": scope["week"],
        "members": [
            {"name": name, "entries": sum(entry["author"] == name for entry in entries)}
            for name in scope["members"]
        ],
        "materials": [
            {"id": name, "dated": dated, "used": _use(name, dated, found, used)}
            for name, dated in fate.items()
        ],
        "refused": evidence["refused"],
    }


def _use(name: str, dated: str, found: set[str], used: set[str]) -> str:
    if name in used:
        return "used"
    if dated == "out_of_week":
        return "out_of_week"
    return "left_out" if name in found else "nothing_found"
