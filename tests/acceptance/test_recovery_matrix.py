"""
Every kind of failure at every place (REC-3, REC-4, REC-5, REC-6, REC-8, REC-9, REC-17, REC-27,
REC-29), through every public entry point, over real HTTP; and the page that tells of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mulligan.testing.recovery_cells import KINDS, PLACES, Place
from mulligan.testing.recovery_matrix import BEGIN, END, line, play
from mulligan.testing.stage import Stage

pytestmark = pytest.mark.server

PAGE = (Path(__file__).parents[2] / "docs" / "recovery.md").read_text(encoding="utf-8")

Expected = dict[Place, str]
"""By place: requests, used, phase, agent, run; `CAUSE` stands for the kind's own."""

SENT_AGAIN: Expected = {
    "first turn": "2 | 0 of 2 | active | completed | completed",
    "after a tool": "3 | 0 of 2 | active | completed | completed",
    "subagent": "4 | 0 of 2 | active | completed | completed",
    "last attempt": "3 | 2 of 2 | paused | paused: `CAUSE` | paused",
    "limit 0": "1 | 0 of 0 | paused | paused: `CAUSE` | paused",
}
ASKED_ANEW: Expected = {
    "first turn": "2 | 1 of 2 | active | completed | completed",
    "after a tool": "3 | 1 of 2 | active | completed | completed",
    "subagent": "4 | 1 of 2 | active | completed | completed",
    "last attempt": "3 | 2 of 2 | paused | paused: `CAUSE` | paused",
    "limit 0": "1 | 0 of 0 | paused | paused: `CAUSE` | paused",
}
OVERSEEN: Expected = {
    "first turn": "3 | 1 of 2 | active | completed | completed",
    "after a tool": "4 | 1 of 2 | active | completed | completed",
    "subagent": "5 | 1 of 2 | active | completed | completed",
    "last attempt": "4 | 2 of 2 | paused | paused: `CAUSE` | paused",
    "limit 0": "1 | 0 of 0 | paused | paused: `CAUSE` | paused",
}
"""As `ASKED_ANEW`, after one request of an overseer that can't help."""

FAILED: Expected = {
    "first turn": "1 | 0 of 2 | active | failed: `CAUSE` | failed",
    "after a tool": "2 | 0 of 2 | active | failed: `CAUSE` | failed",
    "subagent": "3 | 0 of 2 | active | failed: `CAUSE` | completed",
    "last attempt": "3 | 2 of 2 | active | failed: `CAUSE` | failed",
    "limit 0": "1 | 0 of 0 | active | failed: `CAUSE` | failed",
}
CANCELLED: Expected = {
    "first turn": "1 | 0 of 2 | cancelled | cancelled | cancelled",
    "after a tool": "2 | 0 of 2 | cancelled | cancelled | cancelled",
    "subagent": "2 | 0 of 2 | cancelled | cancelled | cancelled",
    "last attempt": "3 | 2 of 2 | cancelled | cancelled | cancelled",
    "limit 0": "1 | 0 of 0 | cancelled | cancelled | cancelled",
}
EXPECTED: dict[str, tuple[Expected, str]] = {
    "`transport`: status 503": (SENT_AGAIN, "unavailable"),
    "`transport`: 429 with Retry-After": (SENT_AGAIN, "rate_limit"),
    "`transport`: connection reset": (SENT_AGAIN, "reset"),
    "`length`": (ASKED_ANEW, "length"),
    "`length`, relabelled": (ASKED_ANEW, "length"),
    "`eof`: nothing came": (ASKED_ANEW, "eof"),
    "`eof`: the stream just ended": (ASKED_ANEW, "eof"),
    "`empty_turn`": (ASKED_ANEW, "empty_turn"),
    "`invalid_json`": (OVERSEEN, "invalid_json"),
    "`wrong_envelope`": (OVERSEEN, "wrong_envelope"),
    "`wrong_envelope`, unknown tool": (ASKED_ANEW, "wrong_envelope"),
    "`schema_violation`": (OVERSEEN, "schema_violation"),
    "`schema_violation`, of a tool": (ASKED_ANEW, "schema_violation"),
    "`mixed_turn`": (ASKED_ANEW, "mixed_turn"),
    "`repetitive_output`": (ASKED_ANEW, "repetitive_output"),
    "refusal": (FAILED, "refused"),
    "401": (FAILED, "unauthorized"),
    "403": (FAILED, "forbidden"),
    "404": (FAILED, "not_found"),
    "429, quota used up": (FAILED, "quota"),
    "400": (FAILED, "bad_request"),
    "deadline": (FAILED, "deadline_exceeded"),
    "cancellation": (CANCELLED, ""),
}


def on_the_page(kind: str) -> dict[str, str]:
    """The lines of a kind on the page, by the place that their table is about."""
    told = PAGE.partition(BEGIN)[2].partition(END)[0]
    tables = {part.splitlines()[0].lower(): part for part in told.split("### ")[1:]}
    of_kind = re.compile(rf"^\| {re.escape(kind)} \| .*$", re.MULTILINE)
    return {place: "\n".join(of_kind.findall(table)) for place, table in tables.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_ends_as_the_page_says_wherever_it_strikes(kind: str, stage: Stage) -> None:
    expected, cause = EXPECTED[kind]

    rows = play(stage, [kind])[kind]

    played = {place: line(kind, row) for place, row in rows.items()}
    assert {
        place: f"| {kind} | {told.replace('CAUSE', cause)} |" for place, told in expected.items()
    } == played
    assert played == on_the_page(kind), (
        "run: python -m mulligan.testing.recovery_matrix docs/recovery.md"
    )


def test_the_page_tells_of_nothing_else() -> None:
    told = re.findall(r"^\| ([^|]+?) \| \d", PAGE, re.MULTILINE)

    assert list(KINDS) * len(PLACES) == told
