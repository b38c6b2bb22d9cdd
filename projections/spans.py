"""
What a run's spans are, and how they are named (`projections/span_fold.py` folds them from its log).

A span's key is made of the ids in the log, so that whoever sees its end names the same span with
the same parent: a run that changes workers is one trace, and a request whose worker was killed ends
with the event that says so. Names and attributes are those of OpenTelemetry's GenAI conventions
(semantic-conventions 1.41), or begin with `mulligan.`. Content is never in them, nor is a message
of an error: only its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from mulligan.events.facts import ToolRequested
from mulligan.events.ids import node_of_invocation, overseen
from mulligan.events.tasks import overseer_subject, parse_task

Attribute = str | int | float | bool | tuple[str, ...]

RUN = "run"
"""The key of the run's own span, the root of its trace."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened within a span, as `mulligan.<the fact's name>`."""

    name: str
    time_ms: int
    attributes: Mapping[str, Attribute] = {}


class Span(msgspec.Struct, kw_only=True):
    """
    A span, under way or ended: times are the server's, in milliseconds since 1970. `error` is the
    kind of what went wrong, `client` whether it waited for another service, `producer` the W3C
    trace context in which its run was asked for.
    """

    key: str
    parent: str | None
    name: str
    start_ms: int
    attributes: dict[str, Attribute]
    client: bool = False
    producer: str | None = None
    moments: list[Moment] = []
    end_ms: int = 0
    error: str | None = None


class RunSpans(msgspec.Struct, kw_only=True):
    """
    What is under way in a run at a version, by key. `models` and `kinds` are those of its plan's
    agents and nodes, `running` the spans of calls that run.
    """

    run: str
    version: int = 0
    requested_ms: int = 0
    models: dict[str, str] = {}
    kinds: dict[str, str] = {}
    calls: dict[str, ToolRequested] = {}
    running: dict[str, str] = {}
    open: dict[str, Span] = {}


def trace_id(run: str, requested_ms: int) -> int:
    """A run's trace, 128 bits: the same on every worker, another for the same id used anew."""
    return int.from_bytes(sha256(f"{run} {requested_ms}".encode()).digest()[:16]) or 1


def span_id(trace: int, key: str) -> int:
    """A span of a trace, 64 bits."""
    return int.from_bytes(sha256(f"{trace:032x} {key}".encode()).digest()[:8]) or 1


# --- Keys ----------------------------------------------------------------------------------------


def node_key(node: str) -> str:
    """The span of a node or an instance."""
    return f"node {node}"


def tool_key(call_id: str, execution: int) -> str:
    """The span of one execution of a call."""
    return f"tool {call_id} {execution}"


def invocation_key(invocation: str) -> str:
    """The span of an agent's invocation: its node's, a called agent's, or the overseer's."""
    repaired = overseen(invocation)
    if repaired is not None:
        return repair_key(repaired, int(invocation.rpartition(".")[2]))
    if invocation == node_of_invocation(invocation):
        return node_key(invocation)
    return f"agent {invocation}"


def task_key(task: str) -> str:
    """The span of what a task works."""
    _, kind, subject = parse_task(task)
    match kind:
        case "run":
            return RUN
        case "node" | "repair":
            return node_key(subject)
        case "subagent":
            return invocation_key(subject)
        case "overseer":
            return repair_key(*overseer_subject(subject))
        case "schedule":
            raise ValueError(f"not a run's: {task!r}")


def repair_key(invocation: str, attempt: int) -> str:
    return f"repair {invocation} {attempt}"


LEAVES = ("request ", "tool ")
"""How keys of spans begin that hold no others."""


def request_key(request_id: str) -> str:
    return f"request {request_id}"


def round_key(node: str, iteration: int) -> str:
    return f"round {node} {iteration}"
