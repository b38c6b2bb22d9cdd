"""A folder with a workflow's own modules, forgotten again after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

STEPS = '''
from pydantic import BaseModel
from mulligan.tools.registry import tool


class Items(BaseModel):
    items: list[str]


class Part(BaseModel):
    text: str


@tool(effect="read", timeout_ms=5_000)
def search(q: str, limit: int = 10) -> list[str]:
    """Look something up."""
    return [q] * limit


@tool(name="search")
def other_search(q: str) -> str:
    """Look elsewhere."""
    return q


@tool
def submit_output(q: str) -> str:
    """Takes a name that is not free."""
    return q


@tool
def untyped(q):
    """Has an argument without a type."""


def join(part):
    return part


def with_everything(collect, part, input, idempotency_key, item=None):
    return None


def any_names(**values):
    return values


def needs_more(part, missing):
    return None


def by_position(part, /):
    return None


constant = 3
'''


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder holding `flow_steps.py`; what was imported from it is undone."""
    (tmp_path / "flow_steps.py").write_text(STEPS)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
