"""SIGTERM and SIGINT are heard, whichever thread they reach."""

from __future__ import annotations

import signal
import threading

import pytest

from mulligan.actors.end_signals import END_SIGNALS, end_signals

WAIT_S = 5.0


@pytest.mark.parametrize("number", END_SIGNALS)
def test_one_that_reaches_another_thread_is_heard_while_the_main_thread_waits(
    number: signal.Signals,
) -> None:
    """As in a process that was stopped, where Python tells nobody while the main thread waits."""
    heard = threading.Event()

    def hit() -> None:
        signal.pthread_kill(threading.get_ident(), number)

    with end_signals(heard.set):
        threading.Thread(target=hit).start()
        assert heard.wait(WAIT_S)


def test_each_is_heard() -> None:
    heard = threading.Semaphore(0)

    with end_signals(heard.release):
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
            assert heard.acquire(timeout=WAIT_S)


def test_others_are_not_its_business() -> None:
    heard: list[str] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append("usr1"))
    try:
        with end_signals(lambda: heard.append("end")):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert heard == ["usr1"]


def test_what_was_there_before_is_there_afterwards() -> None:
    before = [signal.getsignal(number) for number in END_SIGNALS]

    with end_signals(lambda: None):
        pass

    assert [signal.getsignal(number) for number in END_SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1
