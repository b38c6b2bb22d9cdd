"""
A run now, as it is shown to people and programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from mulligan.events.payload import Payload
from mulligan.projections.advice import waits, why
from mulligan.projections.open_decisions import (
    OpenDecision,
    Unsettled,
    open_decisions,
    unsettled,
)
from mulligan.projections.open_requests import OpenRequest, open_requests
from mulligan.projections.state import RunState, lanes_of


class NodeView(msgspec.Struct, kw_only=True):
    """
    A node of a run, or an instance of a `for_each` node; `lane`: an agent of it waits there for a
    slot (`PROVIDER`, `PROVIDER/ID`, with the address; `tenants`: for a limit of its tenant).
    """

    status: str
    reason: str | None
    attempt: int
    lane: str | None


class RunView(msgspec.Struct, kw_only=True):
    """
    A run now. `why` says why it has no output, `waits_for` what people are asked, whole, and
    `unsettled` and `decisions` what else only a person can settle; times are server milliseconds. A
    fork began as a copy of `forked_from`, up to version `forked_at`. It is for `tenant`; `waits`
    says why it has not begun.
    """

    kind: Literal["run"] = "run"
    run: str
    workflow: str
    status: str
    reason: str | None
    why: str
    version: int
    tags: tuple[str, ...]
    forked_from: str | None
    forked_at: int | None
    requested_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    nodes: dict[str, NodeView]
    waits_for: tuple[OpenRequest, ...] = ()
    unsettled: tuple[Unsettled, ...] = ()
    decisions: tuple[OpenDecision, ...] = ()
    tenant: str | None = None
    waits: str = ""


class RunResult(RunView, kw_only=True):
    """A run with its output (null if it has none)."""

    output: Any


def view(state: RunState, value_of: Callable[[Payload], Any]) -> RunView:
    """A run's state, as it is shown; `value_of` a payload, wherever it lies."""
    waits_for = tuple(_with_arguments(one, value_of) for one in open_requests(state))
    lanes = lanes_of(state)
    return RunView(
        run=state.run,
        workflow=state.workflow,
        status=state.status,
        reason=state.reason,
        why=why(state) if state.status in ("paused", "failed") else "",
        version=state.version,
        tags=state.tags,
        forked_from=state.forked_from,
        forked_at=state.forked_at,
        requested_ms=state.requested_ms,
        started_ms=state.started_ms,
        ended_ms=state.ended_ms,
        nodes={
            node.id: NodeView(
                status=node.status,
                reason=node.reason,
                attempt=node.attempt,
                lane=lanes.get(node.id),
            )
            for node in state.nodes.values()
        },
        waits_for=waits_for,
        unsettled=tuple(_with_arguments(one, value_of) for one in unsettled(state)),
        tenant=state.tenant,
        waits=waits(state),
        decisions=tuple(
            replace(one, draft=_whole(one.draft, value_of)) for one in open_decisions(state)
        ),
    )


def result_view(state: RunState, value_of: Callable[[Payload], Any]) -> RunResult:
    """The same with its output."""
    output = value_of(state.output) if state.output is not None else None
    return RunResult(**msgspec.structs.asdict(view(state, value_of)), output=output)


Asked = TypeVar("Asked", OpenRequest, Unsettled)


def _with_arguments(asked: Asked, value_of: Callable[[Payload], Any]) -> Asked:
    """With its arguments, however large: nobody should decide about what is not shown."""
    if asked.arguments is None:
        return asked
    return replace(asked, arguments=_whole(asked.arguments, value_of))


def _whole(payload: Payload, value_of: Callable[[Payload], Any]) -> Payload:
    return payload if payload.inline else Payload.of(value_of(payload))
