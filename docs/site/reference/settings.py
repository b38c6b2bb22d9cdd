"""The variables of the environment, as `mulligan.settings` declares them."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec.structs import FieldInfo, fields

from mulligan.settings import PREFIX, Settings
from reference.table import table

FOR_TESTS = "(for tests)"


def settings() -> str:
    """A table of all variables but those that only tests set."""
    known = [field for field in fields(Settings) if field.name != "dotenv"]
    rows = [_row(field) for field in known]
    return table(("variable", "is", "default"), [row for row in rows if FOR_TESTS not in row[1]])


def _row(field: FieldInfo) -> tuple[str, str, str]:
    description = get_args(field.type)[-1].description
    return f"`{PREFIX}{field.name.upper()}`", description, _default(field)


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if value in (None, (), msgspec.NODEFAULT):
        return ""
    return f"`{value}`"
