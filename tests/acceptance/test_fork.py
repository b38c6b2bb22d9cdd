"""`mulligan fork` and `Client.fork` on a server, with workers and a model."""

from __future__ import annotations

import asyncio
import json

import jsonschema
import pytest
from click.testing import CliRunner, Result

from mulligan import AsyncClient
from mulligan.cli import main
from mulligan.commands.published import published_text
from mulligan.events import facts
from mulligan.projections.history import problems
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.stage import Stage

pytestmark = pytest.mark.server

LOOK = {"tool_calls": [{"name": "look", "arguments": {"q": "tea"}}]}
TURNS = [LOOK, {"json": {"n": 1}}, {"json": {"n": 2}}, {"json": {"n": 3}}]


def call(stage: Stage, *arguments: str) -> Result:
    url = stage.settings.redis_url
    return CliRunner().invoke(main, arguments, env={"MULLIGAN_REDIS_URL": url})


def test_a_fork_goes_on_with_the_results_of_its_parent(stage: Stage) -> None:
    """UI: `mulligan fork RUN --at VERSION`; REC-23."""
    stage.forget()
    with ScriptedModel({"turns": TURNS}) as model:
        parent = stage.enqueue(model, tools=[1])
        first = stage.ended(parent)
        assert first.output == {"n": 1}
        last_request = [e for e in first.events if isinstance(e.data, facts.ModelRequested)][-1]
        at = str(last_request.version)

        told = call(stage, "fork", parent, "--at", at, "--run-id", "mine", "--json")
        assert told.exit_code == 0, told.output
        forked = json.loads(told.stdout)
        jsonschema.validate(forked, json.loads(published_text("fork")))
        assert forked == {"kind": "forked", "run": "mine", "parent": parent, "at_version": int(at)}
        ended = stage.ended("mine")
        assert ended.output == {"n": 2}
        assert problems(ended.events) == []
        assert stage.looked == ["tea"], "the tool had its result"

        again = call(stage, "fork", parent, "--at", at, "--run-id", "mine")
        assert (again.exit_code, again.stdout) == (0, "mine\n")
        assert stage.client.status("mine").version == len(ended.events)

        async def program() -> str:
            async with AsyncClient(stage.settings) as client:
                return await client.fork(parent, int(at))

        assert stage.ended(asyncio.run(program())).output == {"n": 3}
        assert f"forked from {parent} at version {at}" in call(stage, "status", "mine").stdout
        assert f"forked from run {parent}" in call(stage, "trace", "mine").stdout
        assert call(stage, "verify").exit_code == 0


def test_what_can_not_be_forked_is_refused_before_anything_is_done(stage: Stage) -> None:
    with ScriptedModel({"turns": [{"json": {"n": 1}}]}) as model:
        parent = stage.enqueue(model)
        last = stage.ended(parent).events[-1].version
    runs = {run for run, _ in stage.client.store.runs()}
    for arguments, says in (
        (("nobody", "--at", "1"), "no run 'nobody'"),
        ((parent, "--at", "0"), "count from 1"),
        ((parent, "--at", str(last + 1)), f"name one from 1 to {last}"),
        ((parent, "--at", str(last)), "nothing begins after that: fork at"),
        ((parent, "--at", "1", "--run-id", parent), "exists with another input"),
        ((parent, "--at", "1", "--run-id", "a b"), "can't be a run's id"),
    ):
        refused = call(stage, "fork", *arguments)
        assert refused.exit_code == 2
        assert says in refused.stderr
    assert {run for run, _ in stage.client.store.runs()} == runs
