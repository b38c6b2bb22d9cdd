"""Alarms end their process at their time, and only then (real processes)."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys, time
from mulligan.actors.alarm import IntervalAlarm, KernelAlarm
alarm = {"kernel": KernelAlarm, "interval": IntervalAlarm}[sys.argv[1]]()
{body}
sys.stdout.write("alive")
"""


def ended(kind: str, body: str) -> tuple[int, str]:
    program = PROGRAM.replace("{body}", body)
    done = subprocess.run(
        [sys.executable, "-c", program, kind], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout


KINDS = pytest.mark.parametrize(("kind", "signal"), [("kernel", 9), ("interval", 14)])


@KINDS
def test_it_rings_in_the_middle_of_a_call_that_blocks(kind: str, signal: int) -> None:
    body = "alarm.set(time.monotonic() + 0.1); time.sleep(50)"
    assert ended(kind, body) == (-signal, "")


@KINDS
def test_a_time_that_is_over_is_now(kind: str, signal: int) -> None:
    body = "alarm.set(time.monotonic() - 1); time.sleep(50)"
    assert ended(kind, body)[0] in (-signal, -9)


@KINDS
def test_it_can_be_put_off_and_cleared(kind: str, signal: int) -> None:
    put_off = (
        "alarm.set(time.monotonic() + 0.1); alarm.set(time.monotonic() + 40)\n"
        "ends = time.monotonic() + 0.3\nwhile time.monotonic() < ends: pass\n"
    )
    assert ended(kind, put_off) == (0, "alive")
    cleared = "alarm.set(time.monotonic() + 0.2); alarm.clear()\n"
    waits = "ends = time.monotonic() + 0.4\nwhile time.monotonic() < ends: pass\n"
    assert ended(kind, cleared + waits) == (0, "alive")


def test_no_handler_silences_the_kernels() -> None:
    body = (
        "for number in (signal.SIGALRM, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n"
        "alarm.set(time.monotonic() + 0.1); time.sleep(50)"
    )
    assert ended("kernel", body) == (-9, "")
