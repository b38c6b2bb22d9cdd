"""The published JSON Schemas of what commands print."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from mulligan.commands import published_workspace
from mulligan.commands.published import FOLDER, PUBLISHED, published_text
from mulligan.events.codec import line
from mulligan.projections import recovery, trace, usage
from mulligan.projections.run_view import view
from mulligan.schemas.plan import CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_files_are_what_the_code_prints(name: str) -> None:
    assert published_text(name) == (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"), (
        "run: python -m mulligan.commands.published"
    )


@pytest.mark.parametrize("name", published_workspace.PUBLISHED)
def test_the_files_of_a_workspace_are_published_as_the_code_writes_them(name: str) -> None:
    path = published_workspace.FOLDER / f"{name}.schema.json"

    assert published_workspace.published_text(name) == path.read_text(encoding="utf-8"), (
        "run: python -m mulligan.commands.published_workspace"
    )


def _world() -> InMemory:
    call = FunctionPlan(
        call=CodeRef(path="steps:one", digest=""),
        arguments=(),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    world = InMemory(code={"steps:one": lambda: {"n": 1}})
    world.run(plan_of(NodePlan(id="one", work=call)))
    return world


def _printed(world: InMemory) -> dict[str, Any]:
    events = world.events()
    return {
        "event": line(events[0]),
        "recovery": recovery.fold("run", events),
        "status": view(world.state(), lambda payload: payload.value),
        "trace": trace.fold("run", events),
        "usage": usage.fold("run", events),
    }


@pytest.mark.parametrize("name", ["event", "recovery", "status", "trace", "usage"])
def test_what_is_printed_fits_its_published_schema(name: str) -> None:
    printed = json.loads(msgspec.json.encode(_printed(_world())[name]))
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))

    jsonschema.Draft202012Validator(schema).validate(printed)
