"""
Which nodes of a run's graph a decision may be taken on now, kept while facts come in: a plan of
thousands of nodes is not looked through again whenever one of them has ended.
"""

from __future__ import annotations

from mulligan.projections.state import Node, RunState
from mulligan.schemas.plan import Plan


def begin(state: RunState, plan: Plan) -> None:
    """A run has a plan: its nodes are pending, and those without needs can be decided on."""
    state.nodes = {node.id: Node(id=node.id) for node in plan.nodes}
    state.open_needs = {node.id: len(set(node.needs)) for node in plan.nodes if node.needs}
    state.movable = {node.id: plan.position(node.id) for node in plan.nodes if not node.needs}


def changed(state: RunState, node: Node) -> None:
    """
    A node of the plan has changed. One that was pending has been decided on; one with `for_each`
    is looked at again when it has instances to make, and when all of them have ended.
    """
    width = node.fan_out
    fans_out = width is not None and node.status == "running"
    if width is not None and fans_out and (node.readied < width or node.done >= width):
        _movable(state, node.id)
    else:
        state.movable.pop(node.id, None)


def ended(state: RunState, node_id: str) -> None:
    """A node of the plan has ended: what needed nothing else can be decided on."""
    for waiting in state.plan.needed_by(node_id) if state.plan is not None else ():
        state.open_needs[waiting] -= 1
        if not state.open_needs[waiting] and state.nodes[waiting].status == "pending":
            _movable(state, waiting)


def _movable(state: RunState, node_id: str) -> None:
    if state.plan is not None:
        state.movable[node_id] = state.plan.position(node_id)
