"""Which mode an output is handed in by (REC-24)."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.decisions.output_mode import fits_native, fits_tool, mode_of
from mulligan.schemas.plan import AgentPlan


def strict(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def agent(schema: dict[str, Any], **more: Any) -> AgentPlan:
    fields = {"prompt": "", "recovery_limit": 2, "model": "openai/some-model"}
    return AgentPlan(output_schema=schema, **{**fields, **more})


STRICT = strict(
    n={"type": "integer", "description": "how many"},
    kind={"enum": ["a", "b"]},
    parts={"type": "array", "items": {"$ref": "#/$defs/part"}},
    maybe={"anyOf": [{"type": "string"}, {"type": "null"}]},
) | {"$defs": {"part": strict(name={"type": ["string", "null"]})}}

NOT_STRICT: dict[str, dict[str, Any]] = {
    "open": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "optional": strict(n={"type": "integer"}) | {"required": []},
    "bound": strict(n={"type": "integer", "minimum": 1}),
    "pattern": strict(s={"type": "string", "pattern": "^a"}),
    "no items": strict(a={"type": "array"}),
    "anything": strict(a={}),
    "always": strict(a=True),
    "allOf": strict(a={"type": "object"}) | {"allOf": [{"required": ["a"]}]},
    "within": strict(a={"type": "object", "properties": {"b": {"type": "string"}}}),
    "in definitions": strict(a={"$ref": "#/$defs/a"}) | {"$defs": {"a": {"type": "object"}}},
    "root": {"anyOf": [strict(a={"type": "string"})]},
    "too deep": strict(a=strict(b=strict(c=strict(d=strict(e=strict(f={"type": "null"})))))),
}


def test_rec24_a_schema_in_the_strict_form_fits_native() -> None:
    assert fits_native(STRICT)
    assert "native" == mode_of(agent(STRICT))


@pytest.mark.parametrize("name", NOT_STRICT)
def test_rec24_a_schema_that_native_can_not_express_exactly_is_not_sent_there(name: str) -> None:
    assert not fits_native(NOT_STRICT[name])
    assert "tool" == mode_of(agent(NOT_STRICT[name]))


@pytest.mark.parametrize(
    "more",
    [
        {"model": "scripted/m"},
        {"model": "deepseek/some-model"},
        {"model": None},
        {"tools": ("tools:look",)},
        {"subagents": ("checker",)},
        {"allow_user_input": True},
    ],
)
def test_rec24_where_native_schemas_are_not_known_to_be_kept_to_auto_takes_the_tool(
    more: dict[str, Any],
) -> None:
    assert "tool" == mode_of(agent(STRICT, **more))


@pytest.mark.parametrize(
    ("model", "wanted"), [("openai/m", "tool"), ("ollama/m", "native"), ("hosted_vllm/m", "native")]
)
def test_rec24_a_providers_name_for_another_server_tells_nothing(model: str, wanted: str) -> None:
    assert wanted == mode_of(agent(STRICT, model=model), "http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    "schema",
    [
        strict(next={"$ref": "#"}),
        strict(a={"type": "string"}, b={"$ref": "#/properties/a"}),
        strict(a={"$dynamicRef": "#a"}),
        {**strict(a={"type": "string"}), "$id": "x"},
    ],
)
def test_rec24_a_schema_that_refers_to_its_root_goes_into_the_prompt(schema: Any) -> None:
    assert not fits_tool(schema)
    assert "prompt" == mode_of(agent(schema))


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_rec24_a_mode_that_the_workflow_names_is_in_force(mode: Any) -> None:
    assert mode == mode_of(agent(STRICT, mode=mode))
