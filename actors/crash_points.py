"""
Places where a process can be made to die, hang or fail, so that tests can show what comes of it.

Switched by `MULLIGAN_CRASH_AT`, a comma-separated list of `POINT[:N]:ACTION`: the N-th arrival
(default: the first) at POINT does ACTION. Off, an arrival costs one look at a global.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Literal, assert_never, get_args

from mulligan.errors import InvalidInput

POINTS = {
    "task.claimed": "a task's lease is taken, nothing is decided yet",
    "append.before": "a decision is taken and not yet in the log",
    "append.after": "a decision is in the log, nobody has acted on it yet",
    "model.before": "a request is in the log as sent, and is not sent yet",
    "model.after": "a model has answered, the answer is not in the log yet",
    "tool.before": "a tool's start is in the log, the tool does not run yet",
    "tool.after": "a tool has run, its result is not in the log yet",
    "function.before": "a function node is about to be called",
    "function.after": "a function node has returned, its output is not in the log yet",
    "gates.before": "a draft is about to be judged",
    "gates.after": "a draft was judged, the report is not in the log yet",
    "rework.before": "a draft is about to be redone, or the round's next agents to be named",
    "rework.after": "a draft was redone and judged, neither is in the log yet",
    "act.before": "an act's intent is on the bridge's disk, its input is not sent yet",
    "act.after": "an act's input was sent, what came of it is not on disk yet",
}
"""Every crash point, and what is true there."""

EXIT_CODE = 70
"""What `exit` ends the process with: an internal software error (EX_SOFTWARE of sysexits.h)."""

Action = Literal["kill", "stop", "raise", "exit"]
_ACTIONS: dict[str, Action] = {action: action for action in get_args(Action)}


class CrashPointReached(RuntimeError):
    """The error that the action `raise` raises."""

    def __init__(self, point: str) -> None:
        self.point = point
        super().__init__(f"crash point {point!r}")


class _Armed:
    """One entry of the list."""

    def __init__(self, point: str, arrivals: int, action: Action) -> None:
        self.point = point
        self._left = arrivals
        self._action = action
        self._lock = threading.Lock()

    def arrive(self) -> None:
        with self._lock:
            self._left -= 1
            due = self._left == 0
        if due:
            _act(self._action, self.point)


_armed: tuple[_Armed, ...] = ()


def reach(point: str) -> None:
    """Say that execution has come to a point; what is armed for it happens."""
    if _armed:
        for armed in _armed:
            if armed.point == point:
                armed.arrive()


def arm(spec: str | None) -> None:
    """
    Arm what `spec` lists, and nothing else; empty or None disarms all.

    Raises:
        InvalidInput: it is not of that form, or names an unknown point or action.
    """
    global _armed
    _armed = tuple(_parsed(entry.strip()) for entry in (spec or "").split(",") if entry.strip())


def _parsed(entry: str) -> _Armed:
    point, _, rest = entry.partition(":")
    count, _, action = rest.rpartition(":")
    if point not in POINTS:
        raise InvalidInput(
            f"MULLIGAN_CRASH_AT: no crash point {point!r}; there are {', '.join(POINTS)}"
        )
    if action not in _ACTIONS:
        raise InvalidInput(
            f"MULLIGAN_CRASH_AT: {entry!r} must end in one of {', '.join(_ACTIONS)}, "
            "as in tool.after:2:kill"
        )
    if count and (not count.isdecimal() or int(count) < 1):
        raise InvalidInput(
            f"MULLIGAN_CRASH_AT: {entry!r} counts arrivals with {count!r}; use 1 or more"
        )
    return _Armed(point, int(count or 1), _ACTIONS[action])


def _act(action: Action, point: str) -> None:
    match action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            # Sent to the process, it may reach another thread first, and this one would run on.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        case "exit":
            os._exit(EXIT_CODE)
        case "raise":
            raise CrashPointReached(point)
        case _:
            assert_never(action)
