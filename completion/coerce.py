"""
Changes to a value that lose nothing, where the schema demands them (OUT-5): a fixed list.

They follow jsonschema's errors: where a rule is broken, at most one change is on offer, and the
whole must fit in the end. Never 7.6 for 8, text for a number, a guess at an unknown enum value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from jsonschema.exceptions import ValidationError

from mulligan.completion.decode import Decoded, decode
from mulligan.completion.places import Path, parts, replaced, schemas_at, without
from mulligan.completion.validate import CompiledSchema, pointer
from mulligan.completion.verdict import Coercion

MAX_ROUNDS = 6
"""Stringified values may hold stringified values; more than these are no slip."""

MAX_ERRORS = 200
"""A round looks at so many errors."""

_DIGITS = re.compile(r"-?(?:0|[1-9][0-9]{0,4299})")
_NULL_WORDS = frozenset({"null", "None", "nil", "undefined"})


class _Change(NamedTuple):
    rule: str
    value: Any
    drop: bool = False


def coerced(
    value: Any, schema: CompiledSchema, *, scalar_for_list: bool
) -> tuple[Any, tuple[Coercion, ...]]:
    """The value with the changes of the list applied, and which; it may still not fit."""
    done: list[Coercion] = []
    for _ in range(MAX_ROUNDS):
        changes = _changes(value, schema, scalar_for_list)
        if not changes:
            break
        for path, change in changes.items():
            value = without(value, path) if change.drop else replaced(value, path, change.value)
            done.append(Coercion(pointer(path, schema.names), change.rule))
    return value, tuple(done)


def whole_numbers(value: Any, schema: CompiledSchema) -> tuple[Any, tuple[Coercion, ...]]:
    """`7.0` as 7 where the schema says integer; such a value fits before and after."""
    done: list[Coercion] = []
    for path, part in list(parts(value, _is_whole)):
        if any(map(_says_integer, schemas_at(path, schema.schema))):
            value = replaced(value, path, int(part))
            done.append(Coercion(pointer(path, schema.names), "whole_number"))
    return value, tuple(done)


def _is_whole(part: Any) -> bool:
    return type(part) is float and part.is_integer()


def _says_integer(node: Mapping[str, Any]) -> bool:
    types = _types(node.get("type"))
    return "integer" in types and "number" not in types


def null_as_text(value: Any, schema: CompiledSchema) -> Path | None:
    """Where the word null stands as text although the schema takes a real null there."""
    for path, _ in parts(value, lambda part: isinstance(part, str) and part in _NULL_WORDS):
        if any(map(_takes_null_or_text, schemas_at(path, schema.schema))):
            return path
    return None


def _takes_null_or_text(node: Any) -> bool:
    kinds = set(_types(node.get("type")))
    for branch in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        if isinstance(branch, dict):
            kinds |= _types(branch.get("type"))
    return "null" in kinds and node.get("enum") is None


def _changes(value: Any, schema: CompiledSchema, scalar_for_list: bool) -> dict[Path, _Change]:
    """At most one change for each place, none within another one's."""
    changes: dict[Path, _Change] = {}
    for error in islice(schema.errors(value), MAX_ERRORS):
        path = tuple(error.absolute_path)
        if path not in changes and not any(path[:n] in changes for n in range(len(path))):
            change = _change(error, value, scalar_for_list)
            if change is not None:
                changes[path] = change
    return changes


def _change(error: ValidationError, root: Any, scalar_for_list: bool) -> _Change | None:
    part, rule = error.instance, error.validator
    if part is None:
        return _Change("null_dropped", None, drop=True) if _is_optional(error, root) else None
    if rule == "type":
        return _for_type(part, _types(error.validator_value), scalar_for_list)
    if rule == "enum" and isinstance(part, str):
        return _for_enum(part, error.validator_value)
    if rule in ("anyOf", "oneOf"):
        branch = _only_branch_but_null(error)
        inner = list(branch)
        return _change(inner[0], root, scalar_for_list) if len(inner) == 1 else None
    return None


def _for_type(part: Any, types: frozenset[str], scalar_for_list: bool) -> _Change | None:
    if isinstance(part, str):
        if "integer" in types and _DIGITS.fullmatch(part) and part != "-0":
            return _Change("digits_for_integer", int(part))
        inner = decode(part) if part[:1] in ("{", "[") else None
        if isinstance(inner, Decoded) and _kind(inner.value) in types:
            return _Change("stringified", inner.value)
    if isinstance(part, dict) and "array" in types and _dense(part):
        return _Change("numeric_keys", [part[str(at)] for at in range(len(part))])
    if scalar_for_list and "array" in types and isinstance(part, str | int | float):
        return _Change("scalar_for_list", [part])
    return None


def _for_enum(part: str, values: Any) -> _Change | None:
    same = [v for v in values if isinstance(v, str) and v.casefold() == part.casefold()]
    return _Change("enum_case", same[0]) if len(same) == 1 else None


def _only_branch_but_null(error: ValidationError) -> Iterator[ValidationError]:
    """The errors of the one alternative that is not null, at the place itself; none if several."""
    branches: Any = error.validator_value
    others = [at for at, branch in enumerate(branches) if branch != {"type": "null"}]
    if len(others) == 1 and len(branches) > 1:
        yield from (e for e in error.context or () if e.relative_schema_path[0] == others[0]
                    and not e.relative_path)  # fmt: skip


def _is_optional(error: ValidationError, root: Any) -> bool:
    """Whether the null is a declared property; if it is required, nothing fits without it."""
    path, rules = list(error.absolute_path), list(error.absolute_schema_path)
    if not path or error.validator not in ("type", "enum", "const", "anyOf", "oneOf"):
        return False
    return any(
        rules[at : at + 2] == ["properties", path[-1]] and "properties" not in rules[at + 2 :]
        for at in range(len(rules) - 1)
    )


def _dense(part: dict[str, Any]) -> bool:
    return bool(part) and part.keys() == {str(at) for at in range(len(part))}


def _kind(value: Any) -> str:
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else ""


def _types(value: Any) -> frozenset[str]:
    return frozenset((value,) if isinstance(value, str) else value or ())
