"""
SIGTERM and SIGINT, heard whichever thread of the process they reach.

Python runs a handler in the main thread only, and only once that thread runs again. The kernel
hands a signal to whichever thread it likes: for a process that was stopped (SIGSTOP and SIGCONT, as
a container that is paused, or a service that systemd ends) that is often another one than the
main thread, which then waits on and never hears of it. The wake-up file descriptor is written to in
any thread.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def end_signals(tell: Callable[[], object]) -> Iterator[None]:
    """
    Within this context call `tell`, from a thread of its own, at each SIGTERM and SIGINT. For the
    main thread.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in END_SIGNALS}
    descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(reading, tell), name="signals", daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writing)
        listener.join()
        os.close(reading)


def _listen(reading: int, tell: Callable[[], object]) -> None:
    while received := os.read(reading, 1):
        if received[0] in END_SIGNALS:
            tell()
