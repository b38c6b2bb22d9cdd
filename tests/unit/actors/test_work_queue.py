"""The queue that threads do not wait at once it is closed."""

from __future__ import annotations

import threading
from queue import Empty

import pytest

from mulligan.actors.work_queue import WorkQueue

LONG_S = 60.0


def test_who_waits_is_woken_by_the_end() -> None:
    work, found = WorkQueue(), threading.Event()

    def wait() -> None:
        with pytest.raises(Empty):
            work.get(timeout=0.001)
        found.set()

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    threads[0].join(0.05)
    assert not found.is_set(), "they wait longer than they say"
    work.close()

    for thread in threads:
        thread.join(LONG_S / 6)
    assert found.is_set()
    assert not any(thread.is_alive() for thread in threads)


def test_what_is_there_is_handed_out_first_and_after_the_end_too() -> None:
    work = WorkQueue()
    for number in (2, 1, 3):
        work.put(number)
    assert work.get(timeout=LONG_S) == 1

    work.close()

    assert [work.get(), work.get_nowait()] == [2, 3]
    with pytest.raises(Empty):
        work.get()


def test_an_open_one_waits_for_what_comes() -> None:
    work: WorkQueue = WorkQueue()
    sender = threading.Timer(0.01, work.put, [1])
    sender.start()

    assert work.get(timeout=0) == 1
    with pytest.raises(Empty):
        work.get(block=False)
