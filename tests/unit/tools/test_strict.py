"""The strict form of schemas (READ-2) and the way back."""

from __future__ import annotations

from typing import Any, Literal

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mulligan.decisions.conversation import _offer
from mulligan.providers.body import _tool
from mulligan.schemas.strict import drop_strict_nulls, strict_schema
from mulligan.schemas.tool_spec import ToolSpec


class Inner(BaseModel):
    a: int
    b: str = "x"
    c: str | None = None


class Outer(BaseModel):
    inner: Inner
    maybe: Inner | None = None
    many: list[Inner] = []
    kind: Literal["x", "y"] = "x"
    word: str | None = None
    number: int = 3


PLAIN = Outer.model_json_schema()
STRICT = strict_schema(PLAIN)


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object schema in `schema`."""
    if isinstance(schema, list):
        return [found for part in schema for found in objects(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if "properties" in schema else []
    return own + [found for part in schema.values() for found in objects(part)]


def test_every_object_is_closed_and_requires_all_it_has() -> None:
    assert 2 == len(objects(STRICT))
    for schema in objects(STRICT):
        assert list(schema["properties"]) == schema["required"]
        assert schema["additionalProperties"] is False


def test_the_plain_schema_is_left_as_it_is() -> None:
    assert Outer.model_json_schema() == PLAIN


inner = st.builds(Inner, a=st.integers(), b=st.text(max_size=3), c=st.none() | st.text(max_size=3))
outers = st.builds(
    Outer,
    inner=inner,
    maybe=st.none() | inner,
    many=st.lists(inner, max_size=2),
    kind=st.sampled_from(["x", "y"]),
    word=st.none() | st.text(max_size=3),
    number=st.integers(),
)


@given(outers)
def test_whole_values_fit_the_strict_form_and_come_back_the_same(value: Outer) -> None:
    full = value.model_dump()
    jsonschema.validate(full, STRICT)
    assert value == Outer.model_validate(drop_strict_nulls(PLAIN, full))


def test_nulls_in_the_place_of_optional_fields_are_their_defaults() -> None:
    nulls = {"a": 1, "b": None, "c": None}
    given = {
        "inner": nulls, "maybe": nulls, "many": [nulls], "kind": None, "word": None, "number": None,
    }  # fmt: skip
    jsonschema.validate(given, STRICT)
    default = Inner(a=1)
    expected = Outer(inner=default, maybe=default, many=[default])
    assert expected == Outer.model_validate(drop_strict_nulls(PLAIN, given))


def test_a_null_that_the_plain_schema_takes_stays() -> None:
    assert {"a": 1, "c": None} == drop_strict_nulls(Inner.model_json_schema(), {"a": 1, "c": None})
    schema = {"properties": {"x": {"enum": [1, None]}, "y": {}, "z": {"type": ["string", "null"]}}}
    value = {"x": None, "y": None, "z": None, "unknown": None}
    assert value == drop_strict_nulls(schema, value)


def test_a_circle_of_references_ends() -> None:
    schema = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"x": {"$ref": "#/$defs/a"}}}
    assert {"x": {"y": None}} == drop_strict_nulls(schema, {"x": {"y": None}})


def test_read2_what_is_optional_is_required_nullable_and_has_no_default() -> None:
    fields = strict_schema(PLAIN)["properties"]
    assert [*fields] == STRICT["required"]
    assert all("default" not in field for field in fields.values())
    assert {"type": ["integer", "null"], "title": "Number"} == fields["number"]


def test_read2_providers_are_shown_the_strict_form_and_those_that_keep_to_it_are_told_so() -> None:
    spec = ToolSpec(
        name="look",
        description="Look.",
        effect="read",
        path="m:look",
        digest="",
        parameters={"type": "object", "properties": {"limit": {"type": "integer", "default": 3}}},
    )
    offers = [_offer(spec, held) for held in (False, True)]
    assert {"limit": {"type": ["integer", "null"]}} == offers[0].parameters["properties"]
    assert [False, True] == [offer.strict for offer in offers]
    assert [None, True] == [_tool(offer)["function"].get("strict") for offer in offers]
