"""Workflows in Python (interfaces.md, Python) and the App that holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mulligan.app import App
from mulligan.errors import InvalidInput, WorkflowInvalid
from mulligan.schemas.builder import Workflow
from mulligan.schemas.code import import_code
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.tools.registry import tool


def steps(folder: Path, name: str) -> Any:
    return import_code(f"flow_steps:{name}", [str(folder)])


def brief(folder: Path) -> Workflow:
    flow = Workflow("brief", model="openai/some-model", recovery_limit=2, deadline="10m")
    checker = flow.subagent("checker", prompt="Check it.", output={"type": "object"})
    collect = flow.agent(
        "collect",
        prompt="about {input.topic}",
        tools=[steps(folder, "search")],
        ask_before=[steps(folder, "search")],
        allow_user_input=True,
        subagents=[checker],
        output=steps(folder, "Items"),
    )
    part = flow.agent(
        "part",
        needs=[collect],
        for_each="collect.items",
        prompt="… {item} …",
        output=steps(folder, "Part"),
    )
    flow.function("join", steps(folder, "join"), needs=[part], timeout="30s", retry={"attempts": 2})
    return flow


def test_python_and_yaml_compile_to_the_same_plan(folder: Path) -> None:
    items, part = (json.dumps(steps(folder, n).model_json_schema()) for n in ("Items", "Part"))
    (folder / "brief.yaml").write_text(f"""
name: brief
settings: {{model: openai/some-model, recovery_limit: 2, deadline: 600}}
agents:
  checker: {{prompt: Check it., output_schema: {{type: object}}}}
nodes:
  - id: collect
    kind: agent
    prompt: about {{input.topic}}
    tools: [flow_steps:search]
    ask_before: [flow_steps:search]
    allow_user_input: true
    subagents: [checker]
    output_schema: {items}
  - id: part
    kind: agent
    needs: [collect]
    for_each: collect.items
    prompt: … {{item}} …
    output_schema: {part}
  - id: join
    kind: function
    call: flow_steps:join
    needs: [part]
    timeout: 30
    retry: {{attempts: 2}}
""")
    written = load_workflow(str(folder / "brief.yaml"))
    built = brief(folder).definition()
    assert written.model_dump() == built.model_dump()
    assert compile_plan(written).digest == compile_plan(built).digest


def test_problems_in_python_name_the_workflow_and_the_place(folder: Path) -> None:
    flow = Workflow("brief")
    flow.agent("a", prompt="{inpt.topic}", needs=["b"])
    with pytest.raises(WorkflowInvalid) as caught:
        flow.definition()
    assert "workflow 'brief': nodes[0].needs: no node 'b'" == caught.value.problems[0]


def test_a_lambda_is_refused_with_advice() -> None:
    with pytest.raises(WorkflowInvalid, match="define a function in a module"):
        Workflow("w").function("x", lambda: None)


def test_a_local_function_and_one_of_the_script_are_refused_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def local() -> None:
        """Defined where no worker can find it."""

    with pytest.raises(WorkflowInvalid, match="move it to the top level of its module"):
        Workflow("w").function("x", local)
    monkeypatch.setattr(local, "__qualname__", "top")
    monkeypatch.setattr(local, "__module__", "__main__")
    with pytest.raises(WorkflowInvalid, match="move it into a module of its own"):
        Workflow("w").function("x", local)
    with pytest.raises(WorkflowInvalid, match="move it into a module of its own"):
        Workflow("w").agent("x", prompt="p", tools=[tool(local)])


def test_a_subagents_name_is_taken_once() -> None:
    flow = Workflow("w")
    flow.subagent("a", prompt="p")
    with pytest.raises(WorkflowInvalid, match="given twice"):
        flow.subagent("a", prompt="p")


def test_a_schema_that_is_not_json_is_a_problem() -> None:
    flow = Workflow("w")
    flow.agent("a", prompt="p", output={"type": "object", "default": object()})
    with pytest.raises(WorkflowInvalid, match=r"nodes\[0\]\.output_schema: the schema is no JSON"):
        flow.definition()


def test_an_input_model_makes_the_input_schema_that_prompts_are_held_to(folder: Path) -> None:
    flow = Workflow("w", input=steps(folder, "Part"))
    flow.agent("a", prompt="{input.txt}")
    with pytest.raises(WorkflowInvalid, match=r"did you mean 'text'"):
        flow.definition()


def test_an_app_holds_workflows_and_tools_by_name(folder: Path) -> None:
    app = App()
    app.add(brief(folder))
    app.add(brief(folder).definition())
    app.add(steps(folder, "search"))
    assert "brief" == app.workflow("brief").name
    assert ["flow_steps:search"] == list(app.tools)
    assert app.workflow("brief") is load_workflow("brief", app.workflows)


def test_an_app_says_what_it_does_not_hold(folder: Path) -> None:
    app = App()
    app.add(brief(folder))
    with pytest.raises(InvalidInput, match="did you mean 'brief'"):
        app.workflow("breif")
    with pytest.raises(InvalidInput, match="of type int"):
        app.add(3)  # type: ignore[arg-type]
    other = Workflow("brief")
    other.agent("a", prompt="p")
    with pytest.raises(InvalidInput, match="registered already"):
        app.add(other)


@pytest.mark.parametrize("shape", [3, dict, "object", int])
def test_an_output_that_is_no_shape_is_refused_with_what_one_is(shape: Any) -> None:
    flow = Workflow("w")
    with pytest.raises(InvalidInput, match="a pydantic model or a JSON Schema"):
        flow.agent("a", prompt="p", output=shape)
