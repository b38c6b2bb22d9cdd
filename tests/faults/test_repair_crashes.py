"""
RPR-13: killed at any instant of a round, a repair loop goes on with the same round; no agent is
called twice for the same job, no edit is applied twice, no round is spent twice; and the log
that is written afterwards is the one that an undisturbed run writes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mulligan.events import facts
from mulligan.projections import workspace
from mulligan.projections.repair_log import RepairLog, fold
from mulligan.projections.state import RunState
from mulligan.projections.verify import problems_of
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

LETTER = """\
Invoice No. A-17, 3 March 2024, payable by 17 March 2024
2 x Tea, green, at EUR 4.50: 9.00
Net 9.00, VAT 19 %: 1.71, total EUR 10.71
"""
RECORD: dict[str, Any] = {
    "number": "A-17",
    "date": "2024-03-03",
    "due": "2024-03-17",
    "currency": "EUR",
    "lines": [{"description": "Tea, green", "quantity": 2, "unit_price": 4.5, "amount": 9}],
    "net": 9,
    "tax_rate": 19,
    "tax": 1.71,
    "total": 10.71,
}
INPUT = {"documents": [{"id": "letter", "text": LETTER}]}
NUMBER = "/documents/0/records/0/number"

SCRIPT = [
    # Two wrong fields: one that a sum tells, and one that has to be read again.
    {
        "match": {"node": "extract[0]"},
        "json": {"records": [RECORD | {"number": "A-71", "total": 1}]},
    },
    # The first round reads it wrong again, the second reads the whole record.
    {
        "match": {"invocation": "repair.1.1"},
        "json": {"fields": [{"path": NUMBER, "value": "A-1"}]},
    },
    {"match": {"invocation": "repair.2.1"}, "json": {"fields": [{"path": NUMBER, "value": "B-1"}]}},
    {"match": {"invocation": "repair.3.1"}, "json": {"record": RECORD}},
]

POINTS = [
    ("gates.before", 1),
    ("gates.after", 1),
    *((point, n) for point in ("rework.before", "rework.after") for n in (1, 3)),
    ("rework.after", 4),
    *(("append.after", n) for n in (6, 8, 10)),
    ("append.before", 12),
    ("model.after", 2),
    ("task.claimed", 4),
]
"""Where the worker is killed: before any round, and in each step of the three."""


@pytest.mark.parametrize(("point", "arrival"), POINTS, ids=[f"{p}:{n}" for p, n in POINTS])
@pytest.mark.parametrize("action", ["kill"])
def test_rpr_13_a_worker_is_killed_in_a_round(
    probe: Any, fork: Any, point: str, arrival: int, action: str
) -> None:
    probe.model.play({"turns": [{**turn, "times": "always"} for turn in SCRIPT]})
    dying = fork(f"{point}:{arrival}:{action}")
    run = probe.client.enqueue("records", INPUT, model="scripted/any")
    until(lambda: not dying.alive or probe.client.status(run).ended, 30.0, dying.log)
    assert not dying.alive, f"{point}:{arrival} was never reached"
    next_one = fork()

    state = probe.wait(run)

    assert state.status == "completed", next_one.log()
    assert_as_undisturbed(probe, run, state)


def assert_as_undisturbed(probe: Any, run: str, state: RunState) -> None:
    log = log_of(probe, run)
    assert [(one.iteration, one.level, one.verdict) for one in log.iterations] == [
        (1, 1, "improved"),
        (2, 1, "not_improved"),
        (3, 2, "passed"),
    ]
    done = [[one.type for one in each.actions] for each in log.iterations]
    assert done == [["field", "field"], ["field"], ["record"]]
    events = probe.events(run)
    called = [e.data.invocation for e in events if isinstance(e.data, facts.SubagentCalled)]
    assert called == ["repair.1.1", "repair.2.1", "repair.3.1"]
    ended = [e.data.invocation for e in events if isinstance(e.data, facts.SubagentCompleted)]
    assert ended == called
    assert probe.client.value(run, state.output)["draft"]["documents"][0]["records"] == [RECORD]
    assert problems_of(probe.client.store, run, events) == []


def log_of(probe: Any, run: str) -> RepairLog:
    (log,) = fold(run, probe.events(run), partial(probe.client.value, run)).loops
    return log


def test_rpr_15_the_workspace_is_the_same_bytes_whoever_writes_it(probe: Any, fork: Any) -> None:
    probe.model.play({"turns": [{**turn, "times": "always"} for turn in SCRIPT]})
    fork()
    run = probe.client.enqueue("records", INPUT, model="scripted/any")
    probe.wait(run)

    one, other = (
        workspace.files(run, probe.events(run), partial(probe.client.value, run)) for _ in range(2)
    )

    assert one == other
    assert {"repair/draft.r00.json", "repair/draft.r03.json", "repair/repair-log.json"} <= set(one)
