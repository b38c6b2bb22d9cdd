"""
What facts do to a run's state: the registry of changes, and those that several facts share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact
from mulligan.events.ids import is_instance, node_of_invocation, template_of
from mulligan.projections import allowance, graph
from mulligan.projections.state import ACTIVE_NODE, ENDED_NODE, Invocation, Node, RunState

Change = Callable[[RunState, Envelope, Any], None]
"""Changes a state, in place, by an event and the fact that it holds."""

Changes = dict[type[Fact], Change]


def registering(changes: Changes) -> Callable[..., Callable[[Change], Change]]:
    """A decorator that says in `changes` which kinds of facts a function is for."""

    def on(*kinds: type[Fact]) -> Callable[[Change], Change]:
        def register(change: Change) -> Change:
            changes.update(dict.fromkeys(kinds, change))
            return change

        return register

    return on


def goes_on(state: RunState) -> None:
    """A paused run goes on."""
    if state.status == "paused":
        state.status, state.reason, state.detail = "running", None, ""


def put_node(state: RunState, node: Node) -> None:
    """Replace a node; the count of active ones follows, and its template's of ended ones."""
    before = state.nodes.get(node.id)
    was, now = before.status if before is not None else "pending", node.status
    state.nodes[node.id] = node
    if node.fan_out is None and now != was:
        state.active += (now in ACTIVE_NODE) - (was in ACTIVE_NODE)
        state.paused += (now == "paused") - (was == "paused")
    instance = is_instance(node.id)
    if not instance:
        graph.changed(state, node)
    if now in ENDED_NODE and was not in ENDED_NODE:
        if state.carried == node.id:
            state.carried = None
        if instance:
            template = state.nodes[template_of(node.id)]
            put_node(state, replace(template, done=template.done + 1))
        else:
            graph.ended(state, node.id)


def node_of(state: RunState, event: Envelope) -> Node:
    """The node that an event is about."""
    return state.nodes[event.node or ""]


def settle(state: RunState, invocation_id: str, status: Any) -> None:
    """End an invocation, if there is one of that id that has not ended."""
    invocation = state.invocations.get(invocation_id)
    if invocation is None or invocation.ended:
        return
    recovery = allowance.recovered(invocation.recovery)
    if status == "cancelled":
        recovery = replace(recovery, phase="cancelled")
    state.invocations[invocation_id] = replace(
        invocation, status=status, reason=None, request=None, timer_due_ms=None, recovery=recovery
    )


def unpause(state: RunState, invocation: Invocation, now_ms: int) -> None:
    """Let an invocation go on, and its node with it unless another of its agents still waits."""
    recovery = replace(invocation.recovery, phase="active")
    state.invocations[invocation.id] = replace(
        invocation, status="active", reason=None, since_ms=now_ms, recovery=recovery
    )
    node = state.nodes[node_of_invocation(invocation.id)]
    if node.status == "paused":
        still = [other.reason for other in state.agents_of(node.id) if other.status == "paused"]
        paused = replace(node, reason=still[0]) if still else None
        put_node(state, paused or replace(node, status="running", reason=None))


def cancel_agents(state: RunState, node_id: str) -> None:
    """What a node's agents still do is of no use to anybody once the node has ended (REC-27)."""
    for invocation in state.agents_of(node_id):
        settle(state, invocation.id, "cancelled")
