"""What the report on the local model calls a wrong value: it must not pass one, nor see one."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "bench"


def load(name: str) -> ModuleType:
    """A module of bench/, which is a folder of scripts and no package."""
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


verdict = load("local_model_verdict")
tasks = load("local_model_tasks")
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Sure: {"name": "Ada", "age": 36} Bye', {"name": "Ada", "age": 36}),
        ("{name: 'Ada Lovelace', age: \"36\",}", {"name": "Ada Lovelace", "age": 36}),
        ('{\\"name\\": \\"Ada\\", \\"age\\": 36}', {"name": "Ada", "age": 36}),
        ("{“name”: “Ada”, “age”: 36.0}", {"name": "Ada", "age": 36}),
        ("```json\n{'ok': True, 'n': [1, 2]}\n```", {"ok": True, "n": [1, 2]}),
        ('{"a": "x\\ny"', {"a": "x\ny"}),
    ],
)
def test_what_a_text_says_however_it_is_spelt(text: str, value: Any) -> None:
    assert verdict.says(text, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"name": "Ada Lovelace", "age": 36}', {"name": "Ada", "age": 36}),
        ('{"name": "Ada", "age": 361}', {"name": "Ada", "age": 36}),
        ('{"name": "Ada", "age": 3.6}', {"name": "Ada", "age": 3}),
        ('{"name": "Ada", "age": -36}', {"name": "Ada", "age": 36}),
        ('{"name": "Ada", "nick": "A", "age": 36}', {"name": "Ada", "age": 36}),
        ('{"n": [1, 2, 3]}', {"n": [1, 3]}),
        ('{"name": "Ada", "age": ', {"name": "Ada", "age": None}),
        ('{"name": "Ada', {"name": "Ad"}),
    ],
)
def test_what_a_text_does_not_say(text: str, value: Any) -> None:
    assert not verdict.says(text, value)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"name": "Ada", "age": 36}, []),
        ({"name": "Ada", "age": True}, ["$.age is no integer"]),
        ({"name": "Ada", "age": "36"}, ["$.age is no integer"]),
        ({"name": "Ada"}, ["$.age is missing"]),
        ({"name": "Ada", "age": 1, "x": 1}, ["$.x is not allowed"]),
        ([], ["$ is no object"]),
    ],
)
def test_where_a_value_does_not_fit(value: Any, wrong: list[str]) -> None:
    assert wrong == verdict.misfits(value, PERSON)


def test_lists_and_words() -> None:
    schema = {
        "type": "array",
        "items": {"type": "string", "enum": ["a", "b"]},
        "minItems": 1,
        "maxItems": 2,
    }
    assert not verdict.misfits(["a", "b"], schema)
    assert verdict.misfits([], schema) == ["$ has 0 items"]
    assert verdict.misfits(["c"], schema) == ["$[0] is none of the words allowed"]


def test_every_example_fits_its_schema_and_says_itself() -> None:
    for kind in tasks.KINDS:
        for _, answer in kind.examples:
            assert verdict.misfits(json.loads(answer), kind.schema) == []
            assert verdict.says(answer, json.loads(answer))
    assert len({task.id for task in tasks.tasks(100)}) == 100
