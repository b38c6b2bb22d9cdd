"""
JSON Schema 2020-12 (OUT-5): does a value fit, and if not, by which rules and where.

Two validators. jsonschema is the reference: it gives every verdict of misfit, and the issues.
jsonschema-rs, which takes hundreds of times less (bench/completion.py), only says "fits", and only
of schemas made of keywords on which the official suite and random values show no difference:
regular expressions (ECMA's there, Python's here), dynamic and remote references, and the retired
`dependencies` are left to jsonschema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema_specifications import REGISTRY

from mulligan.completion.verdict import MAX_ISSUES, Issue, shortened
from mulligan.schemas.author_schema import is_of_object, resolved

MAX_PATH_CHARACTERS = 200
MAX_MESSAGE_CHARACTERS = 120

_SAME_IN_BOTH = frozenset(
    [
        "$schema",
        "$comment",
        "$defs",
        "$ref",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "items",
        "prefixItems",
        "contains",
        "minContains",
        "maxContains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "format",
    ]
)
_NAMES_ARE_FREE = frozenset({"properties", "$defs", "dependentRequired", "dependentSchemas"})
_VALUES = frozenset({"enum", "const", "default", "examples"})

_RULES = {
    "required": "a required field is missing",
    "enum": "must be one of the schema's enum values",
    "const": "must be the schema's constant",
    "additionalProperties": "has a key that the schema does not allow",
    "unevaluatedProperties": "has a key that the schema does not allow",
    "anyOf": "matches none of the alternatives",
    "oneOf": "must match exactly one of the alternatives",
    "not": "must not match the schema under not",
    "pattern": "does not match the pattern",
    "uniqueItems": "has the same item twice",
    "contains": "does not contain the item that it must",
    "dependentRequired": "lacks a field that another one demands",
}


class CompiledSchema:
    """A schema with its validators, and what the envelope and the coercions ask of it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.validator = Draft202012Validator(dict(schema), registry=REGISTRY)
        self.fast = _fast_validator(schema)
        self.of_object = is_of_object(schema)
        self.properties = frozenset(_declared(schema, schema, 8))
        self.names = _names(schema)
        self.integer_names = _integer_names(schema)

    def fits(self, value: Any) -> bool:
        """Whether the value fits; what jsonschema can't decide does not."""
        if self.fast is not None:
            try:
                if self.fast(value):
                    return True
            except (ValueError, OverflowError, RecursionError):
                pass
        return next(self.errors(value), None) is None

    def errors(self, value: Any) -> Iterator[ValidationError]:
        """jsonschema's errors, one that says so if it fails itself."""
        try:
            yield from self.validator.iter_errors(value)
        except (RecursionError, OverflowError) as error:
            yield ValidationError(type(error).__name__, validator="schema_too_deep")
        except Exception as error:  # an unresolvable reference or a broken pattern, by many names
            yield ValidationError(type(error).__name__, validator="schema_unusable")

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """At most twenty issues, none of which quotes the value."""
        found = islice(self.errors(value), MAX_ISSUES)
        return tuple(_issue(error, self.names) for error in found)


def compiled(schema: Mapping[str, Any]) -> CompiledSchema:
    """The compiled schema, cached by its JSON text."""
    return _compile(msgspec.json.encode(schema))


@lru_cache(maxsize=256)
def _compile(text: bytes) -> CompiledSchema:
    return CompiledSchema(msgspec.json.decode(text))


def _fast_validator(schema: Mapping[str, Any]) -> Any:
    if not _same_in_both(schema):
        return None
    try:
        return jsonschema_rs.Draft202012Validator(dict(schema)).is_valid
    except (ValueError, TypeError):
        return None


def _same_in_both(schema: object) -> bool:
    """Whether every keyword of the schema is one on which the validators agree."""
    if not isinstance(schema, Mapping):
        return True
    for keyword, value in schema.items():
        if keyword not in _SAME_IN_BOTH or (keyword == "$ref" and not value.startswith("#")):
            return False
        if keyword in _VALUES:
            continue
        if keyword in _NAMES_ARE_FREE:
            parts: Iterable[object] = value.values()
        else:
            parts = value if isinstance(value, list) else (value,)
        if not all(_same_in_both(part) for part in parts):
            return False
    return True


def _declared(schema: object, root: object, hops: int) -> Iterator[str]:
    """The names of an object's properties, also of those that it refers to or combines."""
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or hops == 0:
        return
    yield from schema.get("properties", ())
    for word in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(word, ()):
            yield from _declared(part, root, hops - 1)


def _names(schema: object) -> frozenset[str]:
    """Every name under `properties` anywhere: what a path may show without quoting the value."""
    found: set[str] = set()
    stack: list[object] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            properties = node.get("properties")
            found.update(properties if isinstance(properties, Mapping) else ())
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    return frozenset(found)


def _integer_names(schema: object) -> tuple[str, ...]:
    """The properties, anywhere, in whose schema an integer is spoken of or referred to, quoted."""
    found: set[str] = set()
    stack: list[object] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            properties = node.get("properties")
            for name, part in properties.items() if isinstance(properties, Mapping) else ():
                text = msgspec.json.encode(part)
                if b'"integer"' in text or b'"$ref"' in text:
                    found.add(f'"{name}"')
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    return tuple(sorted(found))


def pointer(pieces: Iterable[str | int], names: frozenset[str] | None = None) -> str:
    """A JSON pointer; with `names`, keys that are not among them stand as `*`."""
    shown = (
        str(piece) if names is None or isinstance(piece, int) or piece in names else "*"
        for piece in pieces
    )
    path = "".join("/" + piece.replace("~", "~0").replace("/", "~1") for piece in shown)
    return shortened(path, MAX_PATH_CHARACTERS)


def _issue(error: ValidationError, names: frozenset[str]) -> Issue:
    return Issue(
        code=str(error.validator),
        path=pointer(error.absolute_path, names),
        schema_path=pointer(error.absolute_schema_path),
        message=shortened(_message(error), MAX_MESSAGE_CHARACTERS),
    )


def _message(error: ValidationError) -> str:
    """What the rule demands, in words and in the schema's own terms, never the value's."""
    rule = str(error.validator)
    demanded: Any = error.validator_value
    if rule == "type":
        wanted = demanded if isinstance(demanded, str) else " or ".join(map(str, demanded))
        return f"must be {wanted}, and is {_type(error.instance)}"
    if rule == "required" and isinstance(error.instance, Mapping):
        missing = [name for name in demanded if name not in error.instance]
        return f"lacks required: {', '.join(missing)}"
    if rule in _RULES:
        return _RULES[rule]
    if isinstance(demanded, int | float) and not isinstance(demanded, bool):
        return f"must keep {rule} {demanded}"
    return f"breaks the rule {rule}"


def _type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
