"""
RPR-13 for an article, whose rounds call agents with a tool: killed at any instant, no section is
written twice, no edit applied twice, no round spent twice, and the artifacts are those of an
undisturbed run.

`make faults` kills at every arrival at every point, most of which `make test` leaves out. (This
draft comes with its report; crashes around a first judgement are in `test_repair_crashes.py`.)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mulligan.events import facts
from mulligan.events.crash_points import POINTS
from mulligan.projections import workspace
from mulligan.projections.repair_log import fold
from mulligan.projections.state import RunState
from mulligan.projections.verify import problems_of
from mulligan.testing.tea_article import (
    APPROVED,
    BRIEF,
    GOOD,
    LEAVES,
    OUTLINE,
    PLAIN,
    STOCK,
    WATER,
    article,
    edits,
    says,
    script,
    stock_report,
)
from mulligan.testing.waiting import until

pytestmark = [pytest.mark.server, pytest.mark.timeout(3_600)]

THIN = "## Leaves\n\nGreen.\n"
DRAFT = article({"Leaves": THIN, "Water": WATER.replace(PLAIN, STOCK)})
GIVEN = {"draft": DRAFT, "quality": stock_report(DRAFT), "brief": BRIEF, "outline": OUTLINE}
LINE = GIVEN["quality"]["repairs"][0]["line"]
TURNS = script(
    {},
    *edits("repair.1.1", {"line": LINE, "before": "is a game-changer for", "after": "dulls"}),
    says("repair.2.1", {"text": THIN}),
    says("repair.3.1", {"text": LEAVES}),
    says("repair.4.1", APPROVED),
)
"""A stock phrase is mended, a section written twice, and what comes of it approved."""

POINTS_OF_A_ROUND = [
    ("rework.before", 1),
    ("tool.before", 1),
    ("tool.after", 1),
    ("model.after", 2),
    ("rework.after", 2),
    ("rework.after", 5),
    ("append.after", 17),
    ("append.before", 23),
]
"""In the edit, between the editor's answers, where the writer and the reviewer are waited for."""


WORK = ("task.", "append.", "model.", "tool.", "function.", "rework.")
"""What points of a repair's tasks begin with."""


@pytest.mark.parametrize(
    ("point", "arrival"), POINTS_OF_A_ROUND, ids=[f"{p}:{n}" for p, n in POINTS_OF_A_ROUND]
)
def test_rpr_13_a_worker_is_killed_in_a_round(
    probe: Any, fork: Any, point: str, arrival: int
) -> None:
    assert killed_at(probe, fork, point, arrival), f"{point}:{arrival} was never reached"


@pytest.mark.exhaustive
@pytest.mark.parametrize("point", [one for one in POINTS if one.startswith(WORK)])
def test_rpr_13_a_worker_is_killed_at_every_arrival(probe: Any, fork: Any, point: str) -> None:
    arrival = 1
    while killed_at(probe, fork, point, arrival):
        arrival += 1

    assert arrival > 1, f"{point} was never reached"


def killed_at(probe: Any, fork: Any, point: str, arrival: int) -> bool:
    """Whether a worker died there; the next one has brought the run to its end."""
    probe.model.play({"turns": TURNS})
    dying = fork(f"{point}:{arrival}:kill")
    run = probe.client.enqueue(
        "repair", GIVEN, model="scripted/any", run_id=f"{point.replace('.', '-')}-{arrival}"
    )
    until(lambda: not dying.alive or probe.client.status(run).ended, 30.0, dying.log)
    died = not dying.alive
    next_one = fork() if died else dying
    state = probe.wait(run)
    for one in (dying, next_one):
        one.end()

    assert state.status == "completed", next_one.log()
    assert_as_undisturbed(probe, run, state)
    return died


def assert_as_undisturbed(probe: Any, run: str, state: RunState) -> None:
    events = probe.events(run)
    value = partial(probe.client.value, run)
    (log,) = fold(run, events, value).loops
    assert [(one.level, one.verdict) for one in log.iterations] == [
        (1, "improved"),
        (2, "not_improved"),
        (2, "passed"),
    ]
    done = [[action.type for action in one.actions] for one in log.iterations]
    assert done == [["edit"], ["section"], ["section", "references"]]
    called = [e.data.invocation for e in events if isinstance(e.data, facts.SubagentCalled)]
    ended = [e.data.invocation for e in events if isinstance(e.data, facts.SubagentCompleted)]
    assert sorted(ended) == called == ["repair.1.1", "repair.2.1", "repair.3.1", "repair.4.1"]
    assert value(state.output)["draft"] == article(GOOD)
    assert problems_of(probe.client.store, run, events) == []
    assert_files_are_its(probe, run, state)


def assert_files_are_its(probe: Any, run: str, state: RunState) -> None:
    """RPR-15: whoever folds the log, from its beginning, writes the same bytes."""
    value = partial(probe.client.value, run)
    one, other = (workspace.files(run, probe.events(run), value) for _ in range(2))
    assert one == other
    assert one["repair/draft.md"] == article(GOOD).encode()
    names = [f"repair/draft.r{number:02}.md" for number in range(4)]
    assert [name for name in sorted(one) if name.startswith("repair/draft.r")] == names
