"""
REC-33 for rows: a projector that is killed, paused, broken or cut off around the storing of rows
leaves them to the next one, and none is lost or counted twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, assert_never

import pytest

from mulligan.projections.rows import STORED, read_rows
from mulligan.projections.verify import problems_of
from mulligan.testing.fault_cells import CELLS, EVERYDAY, Cell, Result
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

PLAYED = [
    pytest.param(cell, id=cell.id, marks=() if cell.id in EVERYDAY else pytest.mark.exhaustive)
    for cell in CELLS
    if cell.spot.actor == "projector"
]

Projectors = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Projectors]:
    """Starts `mulligan projector` with these options and variables; it ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mulligan.cli", "projector", *options]
        own = {name: v for name, v in os.environ.items() if not name.startswith("MULLIGAN_")}
        started.append(subprocess.Popen(command, env=own | variables, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("cell", PLAYED)
def test_rec33_rows_are_those_of_the_log(
    scene: Any, start: Projectors, note: Any, cell: Cell
) -> None:
    probe = scene.probe
    run = probe.enqueue()
    scene.fork()
    first = start(**scene.armed(cell.spot))
    assert scene.listener.wait() == cell.spot.point

    match cell.fault:
        case "killed":
            first.kill()
        case "paused":
            first.send_signal(signal.SIGSTOP)
        case "raised":
            scene.listener.answer("raise")
            assert first.wait(30) != 0
        case "reply lost":
            scene.lose_reply(cell.spot)
        case _:
            assert_never(cell.fault)
    assert probe.wait(run).status == "completed"
    if cell.fault != "reply lost":  # then the first one goes on by itself
        assert start("--once", MULLIGAN_REDIS_URL=probe.url).wait(30) == 0
        assert rows_are_folds(probe, run)
    if cell.fault == "paused":
        first.send_signal(signal.SIGCONT)
        scene.listener.answer("go")
    if cell.fault in ("paused", "reply lost"):
        until(lambda: rows_are_folds(probe, run), 30.0)
        first.terminate()
        assert first.wait(30) == 0

    assert rows_are_folds(probe, run)
    note(Result(cell=cell.id, outcome="goes on"))


def rows_are_folds(probe: Any, run: str) -> bool:
    """Whether the rows are up to date; one that differs from its fold is a problem."""
    store, history = probe.client.store, probe.events(run)
    assert problems_of(store, run, history) == []
    return all([row.version for row in read_rows(store, rows)] == [len(history)] for rows in STORED)
