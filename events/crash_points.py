"""
Places where a process can be made to die, hang or fail, so that tests can show what comes of it.

Switched by `MULLIGAN_CRASH_AT`, a comma-separated list of `[ACTOR/]POINT[:N]:ACTION`: the N-th
arrival (default: the first) at POINT does ACTION. With an actor (`node`, `run`, …) only arrivals
count that come while a task of its kind is worked. Off, an arrival costs one look at a global.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Literal, assert_never, get_args

from mulligan.errors import InvalidInput
from mulligan.events.tasks import KINDS, parse_task

POINTS = {
    "message.read": "a wake-up is gone from the queue, its task is not claimed yet",
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
    "hint.before": "a wake-up is due to somebody, and is not in the queue yet",
    "leases.renewed": "a round of renewals is on the server, nobody here knows of it yet",
    "sweep.after": "a sweep has pushed what is due ahead, nobody is woken yet",
    "rows.before": "a projector has folded new events, its rows are not stored yet",
    "rows.after": "rows and checkpoint are stored, the projector has not gone on yet",
}
"""Every crash point, and what is true there."""

EXIT_CODE = 70
"""What `exit` ends the process with: an internal software error (EX_SOFTWARE of sysexits.h)."""

Action = Literal["kill", "stop", "raise", "exit", "ask"]
_ACTIONS: dict[str, Action] = {action: action for action in get_args(Action)}


class CrashPointReached(RuntimeError):
    """The error that the action `raise` raises."""

    def __init__(self, point: str) -> None:
        self.point = point
        super().__init__(f"crash point {point!r}")


class _Armed:
    """One entry of the list."""

    def __init__(self, actor: str, point: str, arrivals: int, action: Action) -> None:
        self._actor = actor
        self.point = point
        self._left = arrivals
        self.action = action
        self._lock = threading.Lock()

    def arrive(self) -> None:
        if self._actor and self._actor != _actor_here():
            return
        with self._lock:
            self._left -= 1
            due = self._left == 0
        if due:
            _act(self.action, self.point)


_armed: tuple[_Armed, ...] = ()
_asked: Path | None = None


def reach(point: str) -> None:
    """Say that execution has come to a point; what is armed for it happens."""
    if _armed:
        for armed in _armed:
            if armed.point == point:
                armed.arrive()


def arm(spec: str | None, ask: Path | None = None) -> None:
    """
    Arm what `spec` lists, and nothing else; empty or None disarms all. `ask` is the unix socket
    that the action `ask` connects to: it is sent the point and says, in a line, `go` or `raise`.

    Raises:
        InvalidInput: it is not of that form, names an unknown actor, point or action, or has an
            `ask` without a socket.
    """
    global _armed, _asked
    armed = tuple(_parsed(entry.strip()) for entry in (spec or "").split(",") if entry.strip())
    if ask is None and any(one.action == "ask" for one in armed):
        raise InvalidInput("MULLIGAN_CRASH_AT: `ask` needs MULLIGAN_CRASH_ASK, a unix socket")
    _armed, _asked = armed, ask


def _parsed(entry: str) -> _Armed:
    place, _, rest = entry.partition(":")
    count, _, action = rest.rpartition(":")
    actor, _, point = place.rpartition("/")
    if actor and actor not in KINDS:
        raise InvalidInput(f"MULLIGAN_CRASH_AT: no actor {actor!r}; there are {', '.join(KINDS)}")
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
    return _Armed(actor, point, int(count or 1), _ACTIONS[action])


def _actor_here() -> str:
    """The kind of the task that this thread works, as its log lines name it."""
    import structlog  # nobody but tests pays for it

    task = structlog.contextvars.get_contextvars().get("task")
    return parse_task(task)[1] if task else ""


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
        case "ask":
            if _answer(point) == "raise":
                raise CrashPointReached(point)
        case _:
            assert_never(action)


def _answer(point: str) -> str:
    """What the listener says to an arrival; nothing if it is gone."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.connect(str(_asked))
        listener.sendall(f"{point}\n".encode())
        return listener.makefile().readline().strip()
