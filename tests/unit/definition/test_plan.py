"""Compiling to a plan, and the plan as bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.errors import WorkflowInvalid
from mulligan.schemas.code import code_digest, import_code
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.graph import find_cycle, topological_order
from mulligan.schemas.plan import (
    AgentPlan,
    FunctionPlan,
    Plan,
    decode_plan,
    encode_plan,
    plan_digest,
    plan_from_dict,
    plan_to_dict,
)
from mulligan.schemas.workflow import WorkflowDefinition

ITEMS = {"type": "object", "properties": {"items": {"type": "array"}}}


def definition(
    *nodes: dict[str, Any], folder: Path | None = None, **rest: Any
) -> WorkflowDefinition:
    made = WorkflowDefinition.model_validate({"name": "brief", "nodes": list(nodes), **rest})
    return made.with_code_path(str(folder)) if folder else made


def agent(node_id: str, **rest: Any) -> dict[str, Any]:
    return {"id": node_id, "kind": "agent", "prompt": "p", **rest}


def agent_plan(plan: Plan, node_id: str) -> AgentPlan:
    work = plan.node(node_id).work
    assert isinstance(work, AgentPlan)
    return work


def test_an_agent_without_a_schema_gets_the_default_one_out1() -> None:
    plan = compile_plan(definition(agent("a")))
    schema = agent_plan(plan, "a").output_schema
    assert ("object", ["summary"]) == (schema["type"], schema["required"])


def test_settings_apply_where_a_node_says_nothing_rec10() -> None:
    plan = compile_plan(
        definition(
            agent("a"),
            agent("b", recovery_limit=0, model="own"),
            settings={"recovery_limit": 5, "model": "general"},
        ),
        default_model="ignored",
    )
    assert (5, "general") == (agent_plan(plan, "a").recovery_limit, agent_plan(plan, "a").model)
    assert (0, "own") == (agent_plan(plan, "b").recovery_limit, agent_plan(plan, "b").model)


def test_the_callers_model_is_used_where_the_workflow_has_none() -> None:
    plan = compile_plan(definition(agent("a")), default_model="m")
    assert "m" == agent_plan(plan, "a").model == plan.settings.model


@pytest.mark.parametrize("key", ["outputRepairModel", "output_repair_model"])
def test_the_overseers_model_is_spelled_either_way_ovr4(key: str) -> None:
    plan = compile_plan(definition(agent("a"), settings={key: "mender"}))
    assert "mender" == plan.settings.output_repair_model
    blank = compile_plan(definition(agent("a"), settings={key: "  "}))
    assert blank.settings.output_repair_model is None


def test_a_function_is_tried_once_and_may_be_repeated_after_a_crash(folder: Path) -> None:
    node = {"id": "x", "kind": "function", "call": "flow_steps:any_names", "needs": ["a"]}
    work = compile_plan(definition(agent("a"), node, folder=folder)).node("x").work
    assert isinstance(work, FunctionPlan)
    assert (1, "idempotent", None) == (work.attempts, work.effect, work.timeout_ms)
    assert ("input", "a", "idempotency_key") == work.arguments


def test_a_function_is_given_what_it_takes(folder: Path) -> None:
    call = "flow_steps:with_everything"
    nodes = [
        agent("collect", output_schema=ITEMS),
        agent("part", needs=["collect"]),
        {"id": "x", "kind": "function", "call": call, "needs": ["part"],
         "for_each": "collect.items", "timeout": "1.5s",
         "retry": {"attempts": 3, "backoff": "200ms", "backoff_max": 2}},
    ]  # fmt: skip
    work = compile_plan(definition(*nodes, folder=folder)).node("x").work
    assert isinstance(work, FunctionPlan)
    assert {"collect", "part", "input", "item", "idempotency_key"} == set(work.arguments)
    assert (3, 200, 2_000, 1_500) == (
        work.attempts, work.backoff_ms, work.backoff_max_ms, work.timeout_ms,
    )  # fmt: skip


def test_tools_are_described_in_the_plan_tool1(folder: Path) -> None:
    path = "flow_steps:search"
    spec = compile_plan(definition(agent("a", tools=[path]), folder=folder)).tools[path]
    assert ("search", "read", 5_000, path) == (spec.name, spec.effect, spec.timeout_ms, spec.path)
    assert "Look something up." == spec.description
    assert ["q"] == spec.parameters["required"]
    assert 64 == len(spec.digest)
    assert "allow" == spec.permission


def test_an_unchecked_definition_is_checked_when_it_is_compiled() -> None:
    with pytest.raises(WorkflowInvalid, match=r"workflow 'brief': nodes\[0\]\.needs: no node 'b'"):
        compile_plan(definition(agent("a", needs=["b"])))


def test_the_digest_changes_with_what_is_worked_not_with_where_it_lies() -> None:
    plan = compile_plan(definition(agent("a")))
    elsewhere = compile_plan(definition(agent("a")).with_code_path("/elsewhere"))
    assert plan.digest == elsewhere.digest == plan_digest(plan)
    assert plan.digest != compile_plan(definition(agent("a", temperature=1))).digest


def test_the_digest_changes_with_the_code(folder: Path) -> None:
    for name, body in (("one_steps", "return 1"), ("two_steps", "return 2")):
        (folder / f"{name}.py").write_text(f"def f():\n    {body}\n")
    one, two = (import_code(f"{name}:f", [str(folder)]) for name in ("one_steps", "two_steps"))
    assert code_digest(one) != code_digest(two)


def test_code_without_source_has_a_digest_of_its_bytecode() -> None:
    functions: dict[str, Any] = {}
    exec("def f(): return 1\ndef g(): return 1\ndef h(): return 2", functions)
    f, g, h = (code_digest(functions[name]) for name in "fgh")
    assert f == g != h


def test_an_unknown_node_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        compile_plan(definition(agent("a"))).node("b")


def test_with_settings_keeps_the_rest() -> None:
    changed = definition(agent("a"), settings={"recovery_limit": 4}).with_settings(model="m")
    assert ("m", 4) == (changed.settings.model, changed.settings.recovery_limit)


graphs = st.permutations([f"n{i}" for i in range(8)]).flatmap(
    lambda order: st.fixed_dictionaries(
        {
            name: st.lists(st.sampled_from(order[:place]), unique=True) if place else st.just([])
            for place, name in enumerate(order)
        }
    )
)


@given(graphs, st.randoms())
def test_nodes_come_after_what_they_need_whatever_their_order(
    graph: dict[str, list[str]], random: Any
) -> None:
    given = list(graph)
    random.shuffle(given)
    order = topological_order({name: graph[name] for name in given})
    assert sorted(graph) == sorted(order)
    assert all(order.index(need) < order.index(name) for name in graph for need in graph[name])
    assert [] == find_cycle(graph)


@given(graphs)
def test_a_graph_that_is_closed_to_a_ring_has_a_cycle_that_is_one(
    graph: dict[str, list[str]],
) -> None:
    first, *_, last = topological_order(graph)
    ring = graph | {last: [*graph[last], first], first: [*graph[first], last]}
    cycle = find_cycle(ring)
    assert cycle[0] == cycle[-1]
    assert all(after in ring[before] for before, after in pairwise(cycle))


texts = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=20)
agents = st.fixed_dictionaries(
    {"prompt": texts},
    optional={
        "system": texts,
        "temperature": st.floats(0, 2),
        "max_output_tokens": st.integers(1, 10**9),
        "recovery_limit": st.integers(0, 9),
        "timeout": st.sampled_from([1, 0.25, "3m", "500ms"]),
        "mode": st.sampled_from(["auto", "native", "tool", "prompt"]),
        "allow_user_input": st.booleans(),
        "ask_before": st.just([]),
        "output_schema": st.dictionaries(texts, st.integers() | texts, max_size=2).map(
            lambda extra: {"type": "object", "description": str(extra)}
        ),
    },
)


@given(graphs, st.lists(agents, min_size=8, max_size=8))
def test_a_plan_comes_back_from_its_bytes_exactly(
    graph: dict[str, list[str]], parts: list[dict[str, Any]]
) -> None:
    nodes = [
        {"id": name, "kind": "agent", "needs": needs, **part}
        for (name, needs), part in zip(graph.items(), parts, strict=True)
    ]
    plan = compile_plan(definition(*nodes))
    data = encode_plan(plan)
    assert plan == decode_plan(data)
    assert data == encode_plan(decode_plan(data))
    assert plan == plan_from_dict(msgspec.json.decode(msgspec.json.encode(plan_to_dict(plan))))
    assert plan.digest == plan_digest(decode_plan(data))
