"""Crash points: what arms them, what they do, and that the code reaches only known ones."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from structlog.contextvars import bound_contextvars

from mulligan.errors import InvalidInput
from mulligan.events.crash_points import EXIT_CODE, POINTS, CrashPointReached, arm, reach
from mulligan.testing.crash_listener import CrashListener
from mulligan.testing.waiting import until
from mulligan.testing.worker import process_state

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm(None)


def test_nothing_happens_until_armed() -> None:
    for point in POINTS:
        reach(point)


def test_the_nth_arrival_acts_and_no_other() -> None:
    arm("tool.after:2:raise")

    reach("tool.after")
    reach("tool.before")
    with pytest.raises(CrashPointReached, match=r"tool\.after"):
        reach("tool.after")
    reach("tool.after")


def test_several_can_be_armed() -> None:
    arm("tool.after:raise, model.after:2:raise")

    with pytest.raises(CrashPointReached):
        reach("tool.after")
    reach("model.after")
    with pytest.raises(CrashPointReached):
        reach("model.after")


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("tool.afer:kill", "tool.after"),
        ("tool.after", "kill, stop"),
        ("tool.after:explode", "kill, stop"),
        ("tool.after:0:kill", "1 or more"),
        ("tool.after:x:kill", "1 or more"),
        ("nodes/tool.after:kill", "node, subagent"),
        ("tool.after:ask", "MULLIGAN_CRASH_ASK"),
    ],
)
def test_a_typing_error_is_an_error(spec: str, wanted: str) -> None:
    with pytest.raises(InvalidInput, match=f"MULLIGAN_CRASH_AT.*{re.escape(wanted)}"):
        arm(spec)


def test_only_arrivals_of_the_named_actor_count() -> None:
    arm("node/tool.after:2:raise")

    with bound_contextvars(task="run/n:a"):
        reach("tool.after")
    with bound_contextvars(task="run/"):
        reach("tool.after")
    reach("tool.after")
    with bound_contextvars(task="run/n:a"), pytest.raises(CrashPointReached):
        reach("tool.after")


@pytest.mark.parametrize("answer", ["go", "raise"])
def test_a_listener_is_asked_and_what_it_says_happens(
    tmp_path: Path, answer: Literal["go", "raise"]
) -> None:
    with CrashListener(tmp_path / "ask") as listener, ThreadPoolExecutor(1) as threads:
        arm("tool.after:ask", listener.path)
        arrival = threads.submit(reach, "tool.after")
        assert listener.wait(10.0) == "tool.after"
        assert not arrival.done()

        listener.answer(answer)

        assert isinstance(arrival.exception(10.0), CrashPointReached) == (answer == "raise")


def test_a_listener_that_is_gone_lets_go(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        with CrashListener(tmp_path / "ask") as listener:
            arm("tool.after:ask", listener.path)
            arrival = threads.submit(reach, "tool.after")
            listener.wait(10.0)

        assert arrival.result(10.0) is None


@pytest.mark.parametrize(
    ("action", "code"), [("kill", -signal.SIGKILL), ("exit", EXIT_CODE), ("raise", 1)]
)
def test_a_process_ends_as_it_was_told(action: str, code: int) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from mulligan.events.crash_points import arm, reach\n"
            "arm(sys.argv[1]); reach('tool.after'); print('went on')",
            f"tool.after:{action}",
        ],
        capture_output=True,
        check=False,
    )

    assert ended.returncode == code
    assert ended.stdout == b""


def test_a_process_stops_at_the_point_and_not_beyond() -> None:
    """A signal to the process may reach another thread first; the one at the point must stop."""
    program = (
        "import os, threading\n"
        "from mulligan.events.crash_points import arm, reach\n"
        "def arrive():\n"
        "    reach('tool.after'); os.write(1, b'went on')\n"
        "arm('tool.after:stop')\n"
        "threading.Thread(target=arrive).start()\n"
        "threading.Event().wait()\n"
    )
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            until(lambda pid=process.pid: process_state(pid) == "T")
            process.kill()
            assert process.communicate()[0] == b""


def test_every_point_that_the_code_reaches_is_known_and_reached() -> None:
    reached = {
        point
        for room in ("actors", "projections", "tools/web_use/bridge")
        for path in (ROOT / room).glob("*.py")
        for point in re.findall(r"\breach\(\"([^\"]+)\"\)", path.read_text())
    }

    assert reached == set(POINTS)


def test_an_arrival_costs_next_to_nothing_when_off() -> None:
    began = time.perf_counter()
    for _ in range(100_000):
        reach("append.after")

    assert (time.perf_counter() - began) / 100_000 < 5e-6
