"""
Writes the published JSON Schemas: `python -m mulligan.schemas.publish`.

A test holds the files equal to what is written here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mulligan.schemas.workflow import workflow_json_schema

__all__ = ["PUBLISHED", "published_text"]

PUBLISHED: dict[str, Callable[[], dict[str, Any]]] = {
    "workflow.schema.json": workflow_json_schema,
}
FOLDER = Path(__file__).with_name("json")


def published_text(name: str) -> str:
    """The text of one published file."""
    return json.dumps(PUBLISHED[name](), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every published file."""
    FOLDER.mkdir(exist_ok=True)
    for name in PUBLISHED:
        (FOLDER / name).write_text(published_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
