"""
Cut, malformed, enveloped and real outputs (OUT-2 to OUT-5): nothing wrong is ever completed.
"""

from __future__ import annotations

import collections
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mulligan.completion.check import check_output
from mulligan.completion.verdict import Completed, Verdict, verdict_name

CASES = Path(__file__).parent / "data" / "cases.jsonl.gz"
WANTED = {
    "regenerate": {"truncated"},
    "overseer": {"invalid_json", "wrong_envelope", "schema_violation"},
    "refuse": {"truncated", "refused", "invalid_json", "wrong_envelope", "schema_violation"},
}
RECOVERABLE = ("repair", "accept")


def cases() -> Iterator[dict[str, Any]]:
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def answer(case: dict[str, Any]) -> Verdict:
    return check_output(
        case["raw"],
        case["schema"],
        finish_reason=case.get("finish_reason"),
        terminal=case["terminal"],
        completion_tokens=case.get("usage", {}).get("completion_tokens"),
        max_tokens=case.get("max_tokens"),
        mode=case["mode"],
    )


@pytest.fixture(scope="module")
def judged() -> list[tuple[dict[str, Any], Verdict]]:
    return [(case, answer(case)) for case in cases()]


Judged = list[tuple[dict[str, Any], Verdict]]


def test_no_wrong_value_is_completed(judged: Judged) -> None:
    """OUT-3: neither another value than the right one, nor one where none may be."""
    wrong = [
        case["id"]
        for case, verdict in judged
        if isinstance(verdict, Completed)
        and case["expect"]["action"] != "any"
        and (
            case["expect"]["action"] not in RECOVERABLE
            or ("value" in case["expect"] and verdict.output != case["expect"]["value"])
        )
    ]

    assert [] == wrong


def test_every_cut_is_truncated(judged: Judged) -> None:
    """OUT-2, OUT-3, REC-11: whatever the finish reason says."""
    cut = [
        verdict_name(verdict)
        for case, verdict in judged
        if case["source"] == "cuts" or case["kind"] in ("envelope_cut", "missing_last_brace")
    ]

    assert {"truncated": 1540} == dict(collections.Counter(cut))


def test_at_most_three_in_a_hundred_recoverable_values_are_missed(judged: Judged) -> None:
    recoverable = [v for case, v in judged if case["expect"]["action"] in RECOVERABLE]
    missed = [verdict for verdict in recoverable if not isinstance(verdict, Completed)]

    assert len(recoverable) > 700
    assert len(missed) <= 0.03 * len(recoverable)


def test_refusals_go_where_they_belong(judged: Judged) -> None:
    """A model can't repair what was cut, and a cut is not asked of the overseer."""
    misrouted = [
        case["id"]
        for case, verdict in judged
        if case["expect"]["action"] in WANTED
        and verdict_name(verdict) not in WANTED[case["expect"]["action"]]
    ]

    # Two whole objects for one call: OUT-3 calls that InvalidJson, its reporter asks again at once.
    assert ["case-055"] == misrouted
