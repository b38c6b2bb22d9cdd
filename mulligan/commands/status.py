"""`mulligan status [RUN]`: one run, or the list of all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import click
import msgspec
from msgspec.structs import replace

from mulligan.client import Client
from mulligan.commands.list_runs import DEFAULT_LIMIT, Filter, find, show
from mulligan.commands.printing import clock, json_option, legible, show_json, table
from mulligan.commands.waiting import show_waiting
from mulligan.events.payload import Payload
from mulligan.projections.advice import why
from mulligan.projections.open_requests import OpenRequest, open_requests
from mulligan.projections.state import RunState, lanes_of


class NodeView(msgspec.Struct, kw_only=True):
    """
    A node of a run, or an instance of a `for_each` node; `lane`: an agent of it waits there for a
    slot (`PROVIDER`, `PROVIDER/ID`, with the address).
    """

    status: str
    reason: str | None
    attempt: int
    lane: str | None


class RunView(msgspec.Struct, kw_only=True):
    """
    A run now. `why` says why it has no output, `waits_for` what people are asked, whole; times are
    server milliseconds. A fork began as a copy of `forked_from`, up to version `forked_at`.
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


@click.command()
@click.argument("run", required=False)
@json_option
def status(run: str | None, as_json: bool) -> None:
    """Show a run, or list the newest."""
    with Client() as client:
        if run is not None:
            _show_run(view(client.status(run), partial(client.value, run)), as_json)
        else:
            show(find(client, Filter(), DEFAULT_LIMIT), as_json)


def view(state: RunState, value_of: Callable[[Payload], Any]) -> RunView:
    """A run's state, as it is shown; `value_of` a payload, wherever it lies."""
    waits_for = tuple(_whole(one, value_of) for one in open_requests(state))
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
    )


def _whole(request: OpenRequest, value_of: Callable[[Payload], Any]) -> OpenRequest:
    """With its arguments, however large: nobody should approve what is not shown."""
    if request.arguments is None or request.arguments.inline:
        return request
    return replace(request, arguments=Payload.of(value_of(request.arguments)))


def _show_run(shown: RunView, as_json: bool) -> None:
    if as_json:
        show_json(shown)
        return
    reason = f" ({shown.reason})" if shown.reason else ""
    click.echo(f"{shown.run}  {shown.workflow}  {shown.status}{reason}  version {shown.version}")
    click.echo(f"requested {clock(shown.requested_ms)}, ended {clock(shown.ended_ms)} (UTC)")
    if shown.forked_from is not None:
        click.echo(f"forked from {shown.forked_from} at version {shown.forked_at}")
    if shown.why:
        click.echo(f"why: {legible(shown.why)}")
    rows = [(name, _standing(node), str(node.attempt or "-")) for name, node in shown.nodes.items()]
    table(("node", "status", "attempt"), rows)
    for request in shown.waits_for:
        show_waiting(shown.run, request)


def _standing(node: NodeView) -> str:
    told = f" ({node.reason})" if node.reason else ""
    return f"{node.status}{told}" + (f" (waits for a slot of {node.lane})" if node.lane else "")
