"""
An alarm that ends this process at a moment of the monotonic clock, whatever it does then.

The kernel keeps the time and kills, so it needs no bytecode boundary, no free interpreter and no
running process: one that is stopped (SIGSTOP) beyond the moment never runs another instruction.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Protocol


class Alarm(Protocol):
    """One an operating-system process; children of the process do not inherit it."""

    def set(self, at_s: float) -> None:
        """Die at `at_s`, by `time.monotonic`; at once if that is over. Replaces the time before."""
        ...

    def clear(self) -> None:
        """Do not die."""
        ...


def new_alarm() -> Alarm:
    """The best alarm of this platform."""
    return KernelAlarm() if sys.platform == "linux" else IntervalAlarm()


class IntervalAlarm:
    """
    `setitimer` with SIGALRM's default action. It counts from when it is set: a process that is
    stopped between reading the clock and setting it may be late by that stop, and a tool that
    handles SIGALRM itself switches it off.
    """

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])

    def set(self, at_s: float) -> None:
        """See `Alarm.set`."""
        left_s = at_s - time.monotonic()
        if left_s <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, left_s)

    def clear(self) -> None:
        """See `Alarm.clear`."""
        signal.setitimer(signal.ITIMER_REAL, 0)


# --- Linux: timer_create(2), which Python does not offer ------------------------------------------

_SIGEV_SIGNAL = 0
_TIMER_ABSTIME = 1


class _Event(ctypes.Structure):
    """`struct sigevent`, 64 bytes."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 48),
    )


class _Time(ctypes.Structure):
    """`struct itimerspec`: the interval (none), then the moment."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class KernelAlarm:
    """
    A timer of the kernel, at an absolute time and with SIGKILL: nothing can be stopped between
    reading the clock and setting it, and no tool can handle it.
    """

    def __init__(self) -> None:
        self._library = _library()
        self._timer = ctypes.c_void_p()
        event = _Event(signo=signal.SIGKILL, notify=_SIGEV_SIGNAL)
        self._checked(
            self._library.timer_create(
                time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)
            )
        )

    def set(self, at_s: float) -> None:
        """See `Alarm.set`."""
        # All zeros would clear it.
        whole_s, rest = divmod(max(at_s, 0.001), 1)
        self._settime(_Time(at_s=int(whole_s), at_ns=int(rest * 1e9)))

    def clear(self) -> None:
        """See `Alarm.clear`."""
        self._settime(_Time())

    def _settime(self, at: _Time) -> None:
        self._checked(
            self._library.timer_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(at), None)
        )

    def _checked(self, status: int) -> None:
        if status != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _library() -> ctypes.CDLL:
    """Where the timers are: the C library, or (glibc before 2.34) one beside it."""
    library = ctypes.CDLL(None, use_errno=True)
    return (
        library if hasattr(library, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)
    )
