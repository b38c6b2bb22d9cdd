"""A small weekly report for tests: its request, what a model says at each stage, and a script."""

from __future__ import annotations

from typing import Any

WEEK = "2026-W48"
ANNA_NOTE = "Anna: the new importer took 1,250 invoices on Tuesday, three failed."
BERT_NOTE = "I moved the archive to the other disk. It took 40 minutes."
NOBODY_NOTE = "The label printer was replaced."
OLD_NOTE = "Anna: planned the importer."
INPUT: dict[str, Any] = {
    "request": "Please write last week's report; last week was short.",
    "timezone": "Europe/Berlin",
    "recorded_at": "2026-11-30T09:00:00Z",
    "members": [{"name": "Anna"}, {"name": "Bert", "aliases": ["Bertie"]}],
    "materials": [
        {"id": "m1", "title": "Stand-up", "date": "2026-11-24", "text": ANNA_NOTE},
        {"id": "m2", "title": "Diary", "date": "2026-11-26", "author": "Bertie", "text": BERT_NOTE},
        {"id": "m3", "title": "Printer", "date": "2026-11-27", "text": NOBODY_NOTE},
        {"id": "m4", "title": "Before", "date": "2026-11-16", "text": OLD_NOTE},
    ],
}
"""`m3` has no author."""

PARSED = {"week_said": "last week", "week": WEEK, "members": []}
TOLD: dict[str, Any] = {**INPUT, "materials": [INPUT["materials"][n] for n in (0, 1, 3)]}
"""The same, and every author is told."""


def entry(quote: str, author: str | None = None) -> dict[str, Any]:
    """What a collector finds."""
    return {"quote": quote, "author": author}


FOUND = {
    "m1": [entry("the new importer took 1,250 invoices on Tuesday", "Anna")],
    "m2": [entry("I moved the archive to the other disk. It took 40 minutes.")],
    "m3": [entry(NOBODY_NOTE)],
    "m4": [entry("planned the importer", "Anna")],
}
"""What is found in each material."""

GOOD: list[dict[str, Any]] = [
    {"text": "The new importer took 1250 invoices.", "evidence": ["e1"]},
    {"text": "The archive is on the other disk, after 40 minutes.", "evidence": ["e2"]},
]
"""Statements that say what `m1` and `m2` say."""


def says(node: str, output: Any, **match: Any) -> dict[str, Any]:
    """A turn of a scripted model that may be played any number of times."""
    return {"match": {"node": node, **match}, "times": "always", "json": output}


def script(given: dict[str, Any], statements: list[dict[str, Any]] = GOOD) -> list[dict[str, Any]]:
    """What a model says to a request: the parser looks at a calendar first."""
    look = {"name": "iso_week", "arguments": {"day": "2026-11-23"}}
    return [
        {"match": {"node": "parsed", "rounds": 0}, "times": "always", "tool_calls": [look]},
        says("parsed", PARSED, rounds=1),
        *(
            says(f"collected[{place}]", {"entries": FOUND[one["id"]]})
            for place, one in enumerate(given["materials"])
        ),
        says("composed", {"statements": statements}),
    ]
