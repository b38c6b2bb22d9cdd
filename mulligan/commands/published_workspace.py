"""
The published shapes of a run's artifacts (RPR-1 to RPR-4): `python -m
mulligan.commands.published_workspace` writes them to `schemas/json/workspace/`.

What the loop writes is of its own types; what an article's nodes hand in is what its workflow asks
of them. A file of another shape gets another version.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec

from mulligan.commands.published import FOLDER as PRINTED
from mulligan.projections.repair_log import RepairLog
from mulligan.projections.workspace import Handoff, Standing
from mulligan.quality.report import Quality
from mulligan.quality.review import Review
from mulligan.schemas.load import load_workflow
from mulligan.schemas.workflow import AgentNode
from mulligan.workflows.article.citations import Citations

VERSION = 1

_TYPES: dict[str, type] = {
    "citations": Citations,
    "handoff": Handoff,
    "quality": Quality,
    "repair-log": RepairLog,
    "review": Review,
    "state": Standing,
}
_NODES = ("angle", "outline", "research")

PUBLISHED = (*_TYPES, *_NODES)
"""By the name of the file in a workspace: `<name>.json`."""

FOLDER = PRINTED / "workspace"


def published_text(name: str) -> str:
    """The text of one published file."""
    shape = partial(msgspec.json.schema, _TYPES[name]) if name in _TYPES else partial(_asked, name)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:mulligan:workspace:{name}:{VERSION}",
        "title": f"{name}.json",
        **shape(),
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def _asked(node_id: str) -> dict[str, Any]:
    """What the article's workflow asks of a node."""
    nodes = load_workflow("article").nodes
    asked = next(node for node in nodes if node.id == node_id)
    assert isinstance(asked, AgentNode)
    return dict(asked.output_schema or {})


def main() -> None:
    """Write every published file."""
    FOLDER.mkdir(exist_ok=True)
    for name in PUBLISHED:
        (FOLDER / f"{name}.schema.json").write_text(published_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
