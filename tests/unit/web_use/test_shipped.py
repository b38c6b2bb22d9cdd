"""web10: those who browse have one way to the web, and are told of no command that is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mulligan.workflows
from mulligan.errors import WorkflowInvalid
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.schemas.plan import AgentPlan
from mulligan.tools.web_use.commands import ACTIONS, COMMANDS
from mulligan.tools.web_use.conditions import CONDITIONS
from mulligan.tools.web_use.tool import web_use

WEB_USE = "mulligan.tools.web_use.tool:web_use"
WORKFLOWS = Path(next(iter(mulligan.workflows.__path__)))
BESIDE_IT = frozenset(["web_use", "read"])
"""What an agent that browses may have: nothing else of ours leaves the machine."""
TOLD = re.compile(
    r"(?:web_use|command|action|condition)[`\"']?\s*(?:[:=(]|with|`)\s*[`\"']?([a-z_]+)"
)


def agents() -> Iterator[tuple[str, AgentPlan, dict[str, str]]]:
    """Every agent that ships, with the names of its tools."""
    for file in sorted(WORKFLOWS.glob("*/workflow.yaml")):
        plan = compile_plan(load_workflow(str(file)), default_model="scripted/any")
        names = {path: spec.name for path, spec in plan.tools.items()}
        own = [node.work for node in plan.nodes if isinstance(node.work, AgentPlan)]
        for agent in (*own, *plan.agents.values()):
            yield plan.name, agent, names


def test_who_browses_has_no_other_way_to_the_web() -> None:
    for workflow, agent, names in agents():
        tools = {names[path] for path in agent.tools}
        if "web_use" in tools:
            assert tools <= BESIDE_IT, f"{workflow}: {tools}"


def test_prompts_name_only_commands_that_exist() -> None:
    known = {*COMMANDS, *ACTIONS, *CONDITIONS}
    texts = [f"{agent.prompt}\n{agent.system or ''}" for _, agent, _ in agents()]
    assert texts
    for text in (*texts, web_use.spec().description):
        if "web_use" in text or text == web_use.spec().description:
            told = set(TOLD.findall(text))
            assert told <= known, told - known


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Use web_use with open.", {"open"}),
        ('{"command": "open_page"}', {"open_page"}),
        ("action: `click`", {"click"}),
    ],
)
def test_the_search_for_commands_finds_some(text: str, found: set[str]) -> None:
    assert found == set(TOLD.findall(text))


def test_the_description_names_every_command_and_action() -> None:
    described = web_use.spec().description

    assert all(name in described for name in (*COMMANDS, *ACTIONS))
    assert "open:" not in described


def test_an_agent_that_browses_must_be_told_where(tmp_path: Path) -> None:
    """web7: a workflow that allows no host is refused before anything runs."""
    file = tmp_path / "flow.yaml"
    flow = f"""\
name: flow
nodes:
  - {{id: a, kind: agent, prompt: p, tools: ["{WEB_USE}"]}}
"""
    file.write_text(flow)

    with pytest.raises(WorkflowInvalid, match=r"settings\.web\.allow"):
        compile_plan(load_workflow(str(file)), default_model="scripted/any")

    file.write_text(f"{flow}settings: {{web: {{allow: [example.org]}}}}\n")
    plan = compile_plan(load_workflow(str(file)), default_model="scripted/any")
    assert ("example.org",) == plan.settings.web.allow
    file.write_text(f"{flow}settings: {{web: {{allow: ['http://a b']}}}}\n")
    with pytest.raises(WorkflowInvalid, match=r"web\.allow"):
        compile_plan(load_workflow(str(file)), default_model="scripted/any")
