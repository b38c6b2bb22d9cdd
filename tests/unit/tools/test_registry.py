"""Tools as decorated functions: TOOL-1, REC-31, READ-2."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import date
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from mulligan.errors import InvalidInput, ToolError
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.tool_spec import EffectCase, ToolSpec
from mulligan.tools.call import call_function
from mulligan.tools.registry import Tool, resolve_tool, tool


class Filter(BaseModel):
    field: str
    limit: int = 5


@tool
def search(
    query: Annotated[str, Field(description="What to look for.")],
    limit: int = 10,
    kind: Literal["web", "file"] | None = None,
    filters: list[Filter] | None = None,
) -> dict[str, Any]:
    """Look something up."""
    chosen = [one.limit for one in filters or []]
    return {"query": query, "limit": limit, "kind": kind, "filters": chosen}


@tool(effect="idempotent", name="put", timeout_ms=1_000)
def store(value: str, idempotency_key: str | None = None) -> str:
    """Store it."""
    return f"{idempotency_key}={value}"


def seen(value: str, idempotency_key: str) -> bool | None:
    return {"yes": True, "no": False}.get(value) if idempotency_key == "k" else None


@tool(effect="write", verify=seen)
def write(value: str, extra: int = 0) -> None:
    """Write it."""


def run(result: Any) -> Any:
    """A tool that returns or raises what it is given."""

    @tool(effect="read")
    def one() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    return one.call({})


def test_a_decorated_function_stays_one() -> None:
    assert {"query": "x", "limit": 2, "kind": None, "filters": []} == search("x", limit=2)
    assert "Look something up." == search.__doc__
    assert "search" == search.__name__ == search.name


def test_the_schema_comes_from_the_signature() -> None:
    properties = search.parameters["properties"]
    assert ["query"] == search.parameters["required"]
    assert "What to look for." == properties["query"]["description"]
    assert 10 == properties["limit"]["default"]
    assert search.parameters["additionalProperties"] is False
    assert "idempotency_key" not in store.parameters["properties"], "the runtime's own"


def test_a_tool_is_write_unless_it_says_otherwise_rec31() -> None:
    assert "write" == search.effect
    assert ("idempotent", "put", 1_000) == (store.effect, store.name, store.timeout_ms)


def test_the_spec_says_all_that_a_plan_records() -> None:
    spec = write.spec()
    assert ("write", "Write it.", True) == (spec.name, spec.description, spec.verifiable)
    assert spec.path.endswith(":write")


def test_an_idempotent_tool_gets_its_key() -> None:
    assert "k=x" == store.call({"value": "x"}, key="k").value
    assert not search.call({"query": "x"}, key="k").is_error, "no parameter for it: not passed"


def test_arguments_become_the_types_of_the_signature() -> None:
    result = search.call({"query": "x", "filters": [{"field": "a"}, {"field": "b", "limit": 1}]})
    assert [5, 1] == result.value["filters"]


def test_nulls_of_the_strict_form_are_omissions_read2() -> None:
    given = {
        "query": "x", "limit": None, "kind": None, "filters": [{"field": "a", "limit": None}],
    }  # fmt: skip
    value = search.call(given).value
    assert (10, None, [5]) == (value["limit"], value["kind"], value["filters"])
    assert "invalid_arguments" == search.call({"query": None}).code, "required is no omission"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": 1},
        {"query": "SECRET", "limit": "SECRET"},
        {"query": "x", "kind": "SECRET"},
        {"query": "x", "filters": [{"field": "a", "limit": 7.6}]},
        {"query": "x", "more": "SECRET"},
    ],
)
def test_arguments_that_do_not_fit_are_named_not_quoted(arguments: dict[str, Any]) -> None:
    result = search.call(arguments)
    assert (True, "invalid_arguments") == (result.is_error, result.code)
    assert "SECRET" not in (result.message or "")
    assert result.value is None


def test_a_validator_of_the_tool_cant_quote_the_value_either() -> None:
    @tool
    def picky(when: date, n: Annotated[int, Field(gt=3)]) -> str:
        """Takes a day."""
        return when.isoformat()

    assert "2026-01-02" == picky.call({"when": "2026-01-02", "n": 4}).value
    assert "n: Input should be greater than 3" == picky.call({"when": "2026-01-02", "n": 1}).message


def test_what_a_tool_raises_is_an_error_result_tool1() -> None:
    result = run(KeyError("x" * 10_000))
    assert (True, "tool_exception", None) == (result.is_error, result.code, result.value)
    assert result.message.startswith("KeyError: ")
    assert 500 == len(result.message)
    assert "timeout" == run(TimeoutError()).code
    own = run(ToolError("page_in_use", "Close it first."))
    assert ("page_in_use", "Close it first.") == (own.code, own.message)


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], object(), "\ud800", {"a": {1: object()}}, lambda: 1]
)
def test_a_result_that_is_not_json_is_an_error(value: Any) -> None:
    """Of a `write` one of unknown outcome: it ran to its end, and is not to be tried again."""
    result = run(value)
    assert ("unserialisable_result", True) == (result.code, result.unknown)


def test_a_circular_result_is_an_error_not_a_crash() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert "unserialisable_result" == run(circle).code


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Filter(field="a"), {"field": "a", "limit": 5}),
        ([Filter(field="a")], [{"field": "a", "limit": 5}]),
        ({1: date(2026, 1, 2)}, {"1": "2026-01-02"}),
        ((1, 2), [1, 2]),
        (None, None),
    ],
)
def test_models_dates_and_tuples_become_json(value: Any, plain: Any) -> None:
    assert plain == json.loads(json.dumps(run(value).value))


def test_interruptions_are_not_swallowed() -> None:
    @tool
    def interrupted() -> None:
        """Is stopped from outside."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted.call({})


def test_asynchronous_tools_run_from_either_side() -> None:
    @tool
    async def later(n: int) -> int:
        """Answer later."""
        await asyncio.sleep(0)
        return 10 // n

    assert 5 == later.call({"n": 2}).value
    assert 5 == asyncio.run(later.acall({"n": 2})).value
    assert "tool_exception" == asyncio.run(later.acall({"n": 0})).code
    assert "invalid_arguments" == asyncio.run(later.acall({})).code
    assert "k=x" == asyncio.run(store.acall({"value": "x"}, key="k")).value

    async def inside() -> None:
        later.call({"n": 2})

    with pytest.raises(RuntimeError, match="await acall"):
        asyncio.run(inside())


def test_functions_of_nodes_are_called_the_same_way() -> None:
    async def join(part: list[int]) -> int:
        return sum(part)

    assert 3 == call_function(join, {"part": [1, 2]}).value
    assert "tool_exception" == call_function(join, {"part": None}).code


@pytest.mark.parametrize(
    ("value", "outcome"), [("yes", "succeeded"), ("no", "not_started"), ("?", "unknown")]
)
def test_verify_tells_what_became_of_a_write_rec31(value: str, outcome: str) -> None:
    assert outcome == write.observe({"value": value}, key="k")


def test_without_an_observation_the_outcome_is_unknown_rec31() -> None:
    assert "unknown" == write.observe({"value": "yes"}, key="another")
    assert "unknown" == store.observe({"value": "yes"}, key="k"), "it has no verify"
    assert "unknown" == write.observe({}, key="k")
    broken = Tool(store.function, verify=lambda value: bool(1 / 0))
    assert "unknown" == broken.observe({"value": "x"})


def test_options_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="read, idempotent or write"):
        tool(effect="wirte")(seen)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="above 0"):
        tool(timeout_ms=0)(seen)
    with pytest.raises(InvalidInput, match="permission is allow or ask, not 'deny'"):
        tool(permission="deny")(seen)  # type: ignore[arg-type]


def test_tool2_a_tool_may_demand_approval_and_its_spec_says_so() -> None:
    assert Tool(search.function).spec().permission == "allow"
    assert Tool(search.function, permission="ask").spec().permission == "ask"


def untyped(q):  # type: ignore[no-untyped-def]
    """No type."""


def spread(*values: str) -> None:
    """Takes any number."""


def positional(value: str, /) -> None:
    """Takes it by position."""


def opaque(value: Callable[[], int]) -> None:
    """Takes what JSON can't carry."""


@pytest.mark.parametrize("function", [untyped, spread, positional, opaque])
def test_a_signature_that_is_no_schema_is_refused_with_the_parameter(function: Any) -> None:
    with pytest.raises(InvalidInput, match=f"tool '{function.__name__}': "):
        tool(function).spec()


def test_a_tool_is_found_by_its_path() -> None:
    assert "invalid_arguments" == resolve_tool("mulligan_test_tools:search").call({}).code


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("search", "not of the form module:attribute"),
        ("no_such_module_here:x", "no module 'no_such_module_here'"),
        ("json:lods", r"module 'json' has no 'lods' \(did you mean 'load"),
        ("json:loads", "json:loads is not a tool"),
    ],
)
def test_a_path_that_leads_to_no_tool_says_why(path: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        resolve_tool(path)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_arguments_give_a_result(value: Any) -> None:
    result = search.call({"query": value, "filters": value})
    assert result.is_error is (result.code is not None)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mulligan_test_tools")
    module.search = search  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mulligan_test_tools", module)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_a_function_that_ends_its_process_has_failed(error: BaseException) -> None:
    """TOOL-1: it takes neither the worker nor the caller with it."""

    def leaves() -> None:
        raise error

    async def leaves_later() -> None:
        leaves()

    for function in (leaves, leaves_later):
        result = call_function(function, {})
        assert (result.is_error, result.code) == (True, "tool_exception")


def test_a_calls_effect_may_depend_on_its_arguments_rec31() -> None:
    cases = [
        EffectCase(given={"command": "look"}, effect="read"),
        EffectCase(given={"command": "do", "how": "again"}, effect="idempotent"),
    ]

    @tool(cases=cases)
    def desk(command: str, how: str = "") -> str:
        return command

    spec = desk_spec(desk)
    assert "read" == spec.effect_of({"command": "look"})
    assert "idempotent" == spec.effect_of({"command": "do", "how": "again"})
    assert "write" == spec.effect_of({"command": "do"}) == spec.effect_of({})
    with pytest.raises(InvalidInput, match="effect"):
        tool(cases=[EffectCase(given={}, effect="none")])(lambda: 1)  # type: ignore[arg-type]


def desk_spec(one: Tool[..., Any]) -> ToolSpec:
    return ToolSpec(
        name=one.name,
        description="",
        parameters=one.parameters,
        effect=one.effect,
        path="",
        digest="",
        cases=one.cases,
    )


def test_a_tool_is_told_of_its_run_and_no_model_can_say_so() -> None:
    @tool
    def whose(text: str, run_context: RunContext | None = None) -> str:
        return run_context.run if run_context is not None else "nobody"

    told = RunContext(run="run-1", call="a.1.1", owner="a")
    assert ["text"] == list(whose.parameters["properties"])
    assert "run-1" == whose.call({"text": "x"}, context=told).value
    assert "nobody" == whose.call({"text": "x"}).value
    assert "invalid_arguments" == whose.call({"text": "x", "run_context": {}}).code


def test_a_tool_may_say_that_its_outcome_is_unknown_rec31() -> None:
    @tool
    def sent() -> None:
        raise ToolError("lost", "it may have been sent", unknown=True)

    result = sent.call({})

    assert (True, True, "lost") == (result.is_error, result.unknown, result.code)
