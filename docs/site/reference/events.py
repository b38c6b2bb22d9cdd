"""Every fact that a run's log may hold, in the order in which `mulligan.events.facts` has them."""

from __future__ import annotations

import inspect

from msgspec.structs import FieldInfo, fields

from mulligan.events.facts import FACTS, Fact


def events() -> str:
    """A section for each fact."""
    return "\n".join(map(_section, FACTS.values()))


def _section(fact: type[Fact]) -> str:
    told = inspect.cleandoc(fact.__doc__ or "")
    names = ", ".join(map(_field, fields(fact)))
    return f"## {fact.__name__}\n\n{told}\n\n{names and f'Fields: {names}.'}\n"


def _field(field: FieldInfo) -> str:
    return f"`{field.name}`" if field.required else f"`{field.name}` (may be absent)"
