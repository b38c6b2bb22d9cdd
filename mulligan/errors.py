"""
Every error that mulligan raises.

    MulliganError
    ├── InvalidInput                 what a person or program handed in can't be used (exit 2)
    │   ├── WorkflowInvalid          a workflow definition; carries every problem, with its line
    │   ├── ExpressionFailed         a condition or placeholder can't be worked out from the values
    │   ├── RunExists                the run id is taken by a run with another input
    │   ├── ScheduleExists           the schedule is there by other terms
    │   ├── ScheduleUnknown          no schedule of that name (exit 2)
    │   └── WorkflowUnknown          no workflow of that name is offered here
    ├── EnvironmentUnfit             the surroundings can't carry a run (exit 5)
    │   ├── CodeMissing              this worker lacks the code that a run's plan names
    │   ├── ArchiveUnfit             archived runs can't be kept where they are to be
    │   ├── IntentsUnfit             intents of writes can't be kept outside the log
    │   ├── StoreUnavailable         no answer from the server; the call may be repeated as it is
    │   ├── StoreFull                the server is out of memory for new work
    │   ├── TenantQueueFull          a tenant has as many runs in line as it may; ask again later
    │   └── StoreUnfit               the server evicts keys, or runs a version that can't work
    ├── AppendRefused                the log did not take an append; nothing was written
    │   ├── VersionConflict          CONFLICT: the run moved on since the person looked
    │   ├── LeaseFenced              FENCED: the task is leased under another token, or is gone
    │   ├── OperationStale           STALE: the task's last operation is not the one named
    │   ├── InboxMoved               DIRTY: something arrived for the task; read it and decide again
    │   └── RunClosed                CLOSED: the run has ended, or is being cancelled
    ├── ToolError                    raised by a tool's author: a failed call with a code of its own
    ├── RunUnknown                   no run of that id (exit 2)
    ├── RunFailed                    a result was asked for, and the run has none
    ├── InvocationFailed             a single agent's call ended without an output
    ├── WaitTimedOut                 what was waited for has not happened yet
    ├── RunSetBack                   events of a run that were read are not in its log any more
    ├── FeedTrimmed                  what a reader of the feed has not read yet is gone from it
    ├── EventUnreadable              an event that this version of the code can't read (exit 5)
    │   ├── PayloadKeyMissing        it is encrypted, and the key to it is not here
    │   └── RunForgotten             the key to it was destroyed on purpose
    └── VerificationFailed           the log and what is folded from it disagree (exit 6)

An error names the condition, carries what it is about as attributes, and says in its message what
to do. No message holds model output, reasoning or a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "AppendRefused",
    "ArchiveUnfit",
    "CodeMissing",
    "EnvironmentUnfit",
    "EventUnreadable",
    "ExpressionFailed",
    "FeedTrimmed",
    "InboxMoved",
    "IntentsUnfit",
    "InvalidInput",
    "InvocationFailed",
    "LeaseFenced",
    "MulliganError",
    "OperationStale",
    "PayloadKeyMissing",
    "RunClosed",
    "RunExists",
    "RunFailed",
    "RunForgotten",
    "RunSetBack",
    "RunUnknown",
    "ScheduleExists",
    "ScheduleUnknown",
    "StoreFull",
    "StoreUnavailable",
    "StoreUnfit",
    "TenantQueueFull",
    "ToolError",
    "VerificationFailed",
    "VersionConflict",
    "WaitTimedOut",
    "WorkflowInvalid",
    "WorkflowUnknown",
]


class MulliganError(Exception):
    """The root of the tree; `exit_code` is what the command line ends with."""

    exit_code = 1


class InvalidInput(MulliganError):
    """Something handed in can't be used; the message says what, where and what to do."""

    exit_code = 2


class WorkflowInvalid(InvalidInput):
    """A workflow definition with problems, all of them, each as `place: what is wrong (hint)`."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class ExpressionFailed(InvalidInput):
    """A condition, placeholder or `for_each` can't be worked out from the values the run has."""

    def __init__(self, expression: str, detail: str) -> None:
        self.expression = expression
        self.detail = detail
        super().__init__(f"{expression[:80]!r} can't be worked out: {detail}")


class RunExists(InvalidInput):
    """The run id is taken: the same id with the same input would have been the same run."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"run {run!r} exists with another input; choose another --run-id")


class WorkflowUnknown(InvalidInput):
    """No workflow of that name may be asked for here."""

    def __init__(self, name: str, offered: Sequence[str]) -> None:
        self.name = name
        super().__init__(
            f"no workflow {name[:80]!r} is offered here: there are {', '.join(offered)}"
        )


class RunUnknown(InvalidInput):
    """No run of that id is stored here."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"no run {run!r} on this server; `mulligan status` lists the runs it has")


class ScheduleExists(InvalidInput):
    """A schedule of that name is there by other terms."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"schedule {name!r} exists by other terms; `--replace` (`replace` of a client) puts "
            "these in their place"
        )


class ScheduleUnknown(InvalidInput):
    """No schedule of that name is stored here."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"no schedule {name[:100]!r} on this server; `mulligan schedule list` lists those "
            "it has"
        )


class EnvironmentUnfit(MulliganError):
    """The surroundings can't carry a run: no server, a wrong policy, a missing key."""

    exit_code = 5


class CodeMissing(EnvironmentUnfit):
    """The code that a run's plan names is not here, or is another version: `code` says which."""

    def __init__(self, message: str, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class TenantQueueFull(EnvironmentUnfit):
    """A run is refused: as many of its tenant wait to begin as may. Asking again later is safe."""

    def __init__(self, tenant: str, waiting: int) -> None:
        self.tenant = tenant
        self.waiting = waiting
        super().__init__(
            f"tenant {tenant!r} has {waiting:,} runs in line, as many as may wait: ask again when "
            f"some have begun, or raise `queued` (mulligan tenants set {tenant} --queued N)"
        )


class ArchiveUnfit(EnvironmentUnfit):
    """Archived runs can't be kept where they are to be; they stay where they were."""


class IntentsUnfit(EnvironmentUnfit):
    """Intents of writes can't be kept where they are to be, or not as surely as was asked for."""


class StoreUnavailable(EnvironmentUnfit):
    """The server gave no answer; whether the call took effect is open, and repeating it is safe."""


class StoreFull(EnvironmentUnfit):
    """The server has no memory for new work; nothing was written."""


class FeedTrimmed(MulliganError):
    """
    References after `after` were trimmed off a partition's feed before they were read here. What is
    left begins after `trimmed`; the runs they referred to are all there.
    """

    def __init__(self, partition: int, after: str, trimmed: str) -> None:
        self.partition = partition
        self.after = after
        self.trimmed = trimmed
        super().__init__(
            f"partition {partition}: the feed was trimmed from {after} to {trimmed}; "
            "`mulligan rebuild` makes rows from the runs themselves"
        )


class RunFailed(MulliganError):
    """A result was asked for of a run that failed, was cancelled or is paused."""

    def __init__(self, run: str, status: str, detail: str) -> None:
        self.run = run
        self.status = status
        super().__init__(f"run {run!r} is {status}: {detail}" if detail else f"{run!r} is {status}")


class InvocationFailed(MulliganError):
    """
    A single agent's call that ended without an output.

    `status` is `paused` (automatic recovery is over; `reason` says why), `failed` or `cancelled`;
    `code` is the kind of the original cause, `http_status` the provider's where it gave one, and
    `invocation` the whole account, with the allowance, the usage and the events.
    """

    def __init__(
        self,
        status: str,
        detail: str,
        *,
        code: str,
        reason: str | None = None,
        http_status: int | None = None,
        invocation: Any = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.code = code
        self.http_status = http_status
        self.invocation = invocation
        told = f"the call is {status}" + (f" ({reason})" if reason else "")
        super().__init__(f"{told}: {code}: {detail}")


class WaitTimedOut(MulliganError):
    """What was waited for has not happened in the time that was given; it still may."""


class StoreUnfit(EnvironmentUnfit):
    """The server is not set up for a log."""


class ToolError(MulliganError):
    """
    Raised by a tool to fail with a code of its own, such as `page_in_use`.

    The model reads code and message as the call's result. With `unknown` a `write` may have taken
    effect all the same: it is not repeated, and its `verify`, or a person, says what became of it.
    """

    def __init__(self, code: str, message: str, *, unknown: bool = False) -> None:
        self.code = code
        self.unknown = unknown
        super().__init__(message)


class AppendRefused(MulliganError):
    """An append that the log did not take; nothing was written."""

    def __init__(self, run: str, detail: str) -> None:
        self.run = run
        super().__init__(f"run {run!r}: {detail}")


class VersionConflict(AppendRefused):
    """The run has another version than the one the writer had read."""


class LeaseFenced(AppendRefused):
    """The writer's token does not hold the task: its lease was lost, or the task has ended."""


class OperationStale(AppendRefused):
    """The task's last operation is not the one the writer named as its own last."""


class InboxMoved(AppendRefused):
    """A fact arrived between decision and append; `inbox` is the task's count of them now."""

    def __init__(self, run: str, detail: str, *, inbox: int) -> None:
        self.inbox = inbox
        super().__init__(run, detail)


class RunClosed(AppendRefused):
    """The run has ended, is archived, or is being cancelled and takes no more work."""


class RunSetBack(MulliganError):
    """
    The events of a run up to `version` were read, and its log does not hold the last of them: its
    server was set back (a failover, a restored file), and what was read did not happen.
    """

    exit_code = 5

    def __init__(self, run: str, version: int) -> None:
        self.run = run
        self.version = version
        super().__init__(
            f"run {run!r}: its log does not hold event {version} as it was read: the server was "
            "set back; forget what was read of the run, and read it from its beginning"
        )


class EventUnreadable(MulliganError):
    """
    A stored event that this code can't read: broken bytes, an unknown type, a newer version. Of
    the run's event `version`, if it is about one; those before it can be read.
    """

    exit_code = 5

    def __init__(self, message: str, *, version: int | None = None) -> None:
        self.version = version
        super().__init__(message)


class PayloadKeyMissing(EventUnreadable):
    """
    What a run contains is encrypted, and the payload key `key` (its name) is not here, or is
    another one of that name. `told` says so in a few words, for lists.
    """

    def __init__(
        self, about: str, key: str, *, other: bool = False, version: int | None = None
    ) -> None:
        self.about = about
        self.key = key
        self.other = other
        is_not = "is another one here" if other else "is not here"
        super().__init__(
            f"{about}: encrypted, and the payload key {key} {is_not}; name the one it was written "
            "with in MULLIGAN_PAYLOAD_KEYS (docs/encryption.md)",
            version=version,
        )

    @property
    def told(self) -> str:
        """The same in a few words."""
        return f"[encrypted: key {self.key} {'is another here' if self.other else 'missing'}]"


class RunForgotten(EventUnreadable):
    """What a run contained can't be read any more: `mulligan keys forget` destroyed its key."""

    def __init__(self, run: str, *, version: int | None = None) -> None:
        self.run = run
        super().__init__(
            f"run {run!r} was forgotten: the key to what it contained was destroyed on purpose",
            version=version,
        )


class VerificationFailed(MulliganError):
    """What is folded from the log is not what it must be."""

    exit_code = 6
