"""A single agent outside any run, with a provider that needs no wire."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import mulligan
from mulligan.errors import InvalidInput, InvocationFailed, WorkflowInvalid
from mulligan.projections.history import problems
from mulligan.testing.scripted_provider import ScriptedProvider

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@mulligan.tool(effect="read")
def look(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def test_rec29_a_call_gives_its_output_and_its_account() -> None:
    provider = ScriptedProvider(["", {"n": "x"}, {"n": 3}])

    done = mulligan.invoke(
        "Count the {input}.", input="sheep", output=SCHEMA, model="a/b", provider=provider
    )

    assert {"n": 3} == done.output
    assert (2, 2, 3, "active") == (
        done.recovery.used,
        done.recovery.limit,
        done.recovery.requests,
        done.recovery.phase,
    )
    assert 3 == done.attempt
    assert "Count the sheep." == provider.requests[0].messages[1].content
    assert 3 == sum(model.unknown for model in done.usage.values()), "unknown, not 0 (REC-21)"
    assert [] == problems(done.events)


def test_rec29_the_calls_own_settings_are_its_authority() -> None:
    provider = ScriptedProvider(["", {"n": 3}])

    with pytest.raises(InvocationFailed) as failed:
        mulligan.invoke("Count.", output=SCHEMA, model="a/b", provider=provider, recovery_limit=0)

    error = failed.value
    assert ("paused", "exhausted", "empty_turn") == (error.status, error.reason, error.code)
    assert ("paused", 1) == (error.invocation.recovery.phase, error.invocation.recovery.requests)


def test_a_tool_of_a_call_need_not_be_importable() -> None:
    @mulligan.tool(effect="read")
    def near(q: str) -> str:
        """Look near."""
        return f"near {q}"

    def ask(request: Any) -> Any:
        names = [offer.name for offer in request.tools]
        assert ["look", "near", "submit_output"] == names
        return {"n": 3}

    done = mulligan.invoke(
        "Count.", output=SCHEMA, model="a/b", tools=[look, near], provider=ScriptedProvider([ask])
    )

    assert {"n": 3} == done.output


@mulligan.tool(effect="read", permission="ask")
def careful(q: str) -> str:
    """Look where somebody has to allow it."""
    return q


@pytest.mark.parametrize(
    "options", [{"tools": [careful]}, {"allow_user_input": True}, {"ask_before": ["a:b"]}]
)
def test_a_call_outside_a_run_has_nobody_to_ask(options: Any) -> None:
    provider = ScriptedProvider([{"n": 3}])

    with pytest.raises(InvalidInput, match="outside a run: enqueue a workflow"):
        mulligan.invoke("Count.", output=SCHEMA, model="a/b", provider=provider, **options)

    assert provider.requests == []


@pytest.mark.parametrize("tools", [[len], [look, look]])
def test_what_is_no_tool_or_there_twice_is_refused(tools: Any) -> None:
    with pytest.raises(InvalidInput, match="tool"):
        mulligan.invoke("Count.", model="a/b", tools=tools, provider=ScriptedProvider([]))


def test_options_are_checked_as_a_workflow_is() -> None:
    with pytest.raises(WorkflowInvalid, match="max_output_tokens"):
        mulligan.invoke("Count.", model="a/b", max_output_tokens=0, provider=ScriptedProvider([]))
    with pytest.raises(WorkflowInvalid, match="limits"):
        mulligan.invoke(
            "Count.",
            model="a/b",
            max_output_tokens=11,
            limits={"max_output_tokens": 10},
            provider=ScriptedProvider([]),
        )


def test_the_public_names_stay_functions_once_they_are_loaded() -> None:
    code = (
        "import mulligan; from mulligan import invoke, ainvoke; "
        "assert callable(mulligan.invoke) and callable(mulligan.ainvoke) and callable(invoke)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
