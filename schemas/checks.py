"""All checks of a definition beyond its shape, in the order in which they are reported."""

from __future__ import annotations

from collections.abc import Iterator

from mulligan.schemas.code_checks import code_problems
from mulligan.schemas.code_table import CodeTable
from mulligan.schemas.draft import Draft
from mulligan.schemas.graph import graph_problems
from mulligan.schemas.problems import Problem
from mulligan.schemas.scope import scope_problems

__all__ = ["definition_problems"]


def definition_problems(draft: Draft, code: CodeTable) -> Iterator[Problem]:
    """
    Everything that is wrong with a draft: graph, references, then code and schemas.

    Modules that it names are imported; nothing in them is called.
    """
    yield from graph_problems(draft)
    yield from scope_problems(draft)
    yield from code_problems(draft, code)
