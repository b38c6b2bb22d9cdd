"""Delivering locally: the revisions of a run, as files of this machine. Nothing leaves it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mulligan.schemas.run_context import RunContext
from mulligan.settings import load_settings
from mulligan.workflows.report.package import Status, write_revision
from mulligan.workflows.report.statements import cited, is_statement, statements_of

FOLDER = "reports"


def delivered(
    request: dict[str, Any],
    scope: dict[str, Any],
    reconciled: dict[str, Any],
    composed: dict[str, Any],
    verified: dict[str, Any],
    run_context: RunContext,
) -> dict[str, Any]:
    """
    The draft as it was composed, if verifying has changed it, then what was verified, each as a
    revision of its own. The same run writes the same revisions again.
    """
    reports = load_settings().data_dir.resolve() / FOLDER
    status: Status = "accepted" if verified["outcome"] == "accepted" else "verified"
    drafts: list[tuple[Status, Any]] = [(status, verified["draft"])]
    if verified["draft"] != composed:
        drafts.insert(0, ("draft", composed))
    for status, draft in drafts:
        files = contents(request, scope, reconciled, draft)
        folder, manifest = write_revision(reports, run_context.run, scope, status, files)
    return {
        "delivered": "locally",
        "folder": str(folder),
        "revision": manifest.revision,
        "status": manifest.status,
        "digest": manifest.digest,
        "completion_status": verified["completion_status"],
    }


def contents(
    request: dict[str, Any], scope: dict[str, Any], reconciled: dict[str, Any], draft: Any
) -> dict[str, str]:
    """The files of a package, by name: the same for the same values."""
    materials = [
        {name: one[name] for name in ("id", "title", "author", "date", "sha256")}
        for one in request["materials"]
    ]
    sources = {"materials": materials, "evidence": reconciled["entries"]}
    return {
        "summary.md": summary(scope, reconciled, draft),
        "coverage.json": _json({"scope": scope, **reconciled["coverage"]}),
        "sources.json": _json(sources),
    }


def summary(scope: Mapping[str, Any], reconciled: Mapping[str, Any], draft: Any) -> str:
    """The report as Markdown. Authors are those of the evidence, not what a model says."""
    entries = {entry["id"]: entry for entry in reconciled["entries"]}
    sections: dict[tuple[str, ...], list[str]] = {(name,): [] for name in scope["members"]}
    for statement in filter(is_statement, statements_of(draft)):
        found = cited(statement, entries)
        authors = tuple(n for n in scope["members"] if any(e["author"] == n for e in found))
        ids = ", ".join(dict.fromkeys(entry["material"] for entry in found))
        text = " ".join(statement["text"].split())
        sections.setdefault(authors, []).append(f"- {text} [{ids}]")
    head = f"# {scope['kind'].capitalize()} report, {scope['week']}"
    days = f"{scope['first_day']} to {scope['last_day']} ({scope['timezone']})"
    return "\n".join([head, "", days, *_sections(sections)]) + "\n"


def _sections(sections: Mapping[tuple[str, ...], list[str]]) -> Iterator[str]:
    for authors, lines in sections.items():
        yield from ("", f"## {' and '.join(authors) or 'Without evidence'}", "")
        yield from lines or ["Nothing in the materials."]


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
