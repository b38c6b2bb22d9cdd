"""Any graph of function nodes: each node runs when its needs are met, once, in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.projections.history import problems
from mulligan.projections.run import fold
from mulligan.schemas.plan import CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory


@st.composite
def graphs(draw: st.DrawFn) -> list[NodePlan]:
    nodes: list[NodePlan] = []
    for number in range(draw(st.integers(1, 8))):
        earlier = [node.id for node in nodes]
        needs = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
        condition = f"{needs[0]}.odd" if needs and draw(st.booleans()) else None
        wide = [one for one in needs if nodes[earlier.index(one)].for_each is None]
        each = f"{wide[0]}.items" if wide and draw(st.integers(0, 3)) == 0 else None
        nodes.append(_node(number, tuple(needs), condition if each is None else None, each))
    return nodes


def _node(number: int, needs: tuple[str, ...], when: str | None, each: str | None) -> NodePlan:
    arguments = (*needs, *(("item", "index") if each else ()))
    work = FunctionPlan(
        call=CodeRef(path=f"steps:n{number}", digest=""),
        arguments=arguments,
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    return NodePlan(id=f"n{number}", needs=needs, when=when, for_each=each, work=work)


def _functions(
    nodes: list[NodePlan], calls: list[tuple[str, Any]]
) -> dict[str, Callable[..., Any]]:
    def of(node: NodePlan) -> Callable[..., Any]:
        def call(**given: Any) -> Any:
            calls.append((node.id, given.get("index")))
            number = int(node.id[1:])
            return {
                "odd": number % 2 == 1,
                "items": list(range(number % 4)),
                "given": sorted(given),
            }

        return call

    return {f"steps:{node.id}": of(node) for node in nodes}


def _world(nodes: list[NodePlan], seed: int) -> tuple[InMemory, list[tuple[str, Any]]]:
    calls: list[tuple[str, Any]] = []
    world = InMemory(code=_functions(nodes, calls), seed=seed)
    world.run(plan_of(*nodes))
    return world, calls


def _condition_of_a_list(nodes: list[NodePlan]) -> bool:
    """`list.odd` is no condition: such a run fails honestly, and is not what is tested here."""
    lists = {node.id for node in nodes if node.for_each}
    return any(node.when and node.when.partition(".")[0] in lists for node in nodes)


@settings(max_examples=150)
@given(nodes=graphs(), seeds=st.tuples(st.integers(0, 999), st.integers(0, 999)))
def test_every_node_runs_once_when_its_needs_are_met_in_any_order(
    nodes: list[NodePlan], seeds: tuple[int, int]
) -> None:
    if _condition_of_a_list(nodes):
        return
    world, calls = _world(nodes, seeds[0])
    state = world.state()

    assert "completed" == state.status, state.failure
    assert [] == problems(world.events())
    assert len(calls) == len(set(calls)), "nothing ran twice"
    ran = [node for node, _ in calls]
    for node in nodes:
        for need in node.needs:
            if node.id in ran and need in ran:
                last_of_need = max(i for i, one in enumerate(ran) if one == need)
                assert last_of_need < ran.index(node.id)
    for node in nodes:
        skipped = state.nodes[node.id].status == "skipped"
        empty = state.nodes[node.id].fan_out == 0
        assert (node.id in ran) != (skipped or empty)

    other, _ = _world(nodes, seeds[1])
    assert state.output == other.state().output
    for name, node_state in state.nodes.items():
        assert node_state.output == other.state().nodes[name].output


@settings(max_examples=40)
@given(nodes=graphs(), seed=st.integers(0, 999))
def test_folding_at_once_or_in_two_pieces_gives_the_same_state(
    nodes: list[NodePlan], seed: int
) -> None:
    world, _ = _world(nodes, seed)
    events = world.events()

    for cut in range(len(events)):
        begun = fold("run", events[:cut])
        branch = begun.branch()
        from mulligan.projections.run import evolve

        for event in events[cut:]:
            evolve(branch, event)
        assert fold("run", events) == branch
        assert fold("run", events[:cut]) == begun, "a branch leaves its root alone"
