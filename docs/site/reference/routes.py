"""The HTTP API's routes, out of the OpenAPI description that is served."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from mulligan.web.access import Access
from mulligan.web.app import ROUTERS
from mulligan.web.openapi import describe
from reference.table import table


def routes() -> str:
    """A section for each route."""
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    described = describe(app, Access())
    return "\n".join(
        _section(f"{method.upper()} {path}", operation, described["components"]["schemas"])
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    )


def _section(title: str, operation: dict[str, Any], shapes: dict[str, Any]) -> str:
    told = operation.get("description", "")
    rows = [*_parameters(operation), *_fields(operation, shapes)]
    given = table(("given", "in", "type", "is"), rows) if rows else ""
    answers = ", ".join(_answer(status, one) for status, one in operation["responses"].items())
    return f"## {title}\n\n{told}\n\n{given}\nAnswers: {answers}.\n"


def _parameters(operation: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (f"`{one['name']}`", one["in"], _type(one["schema"]), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]


def _fields(operation: dict[str, Any], shapes: dict[str, Any]) -> list[tuple[str, ...]]:
    content = operation.get("requestBody", {}).get("content", {})
    found: list[tuple[str, ...]] = []
    for body in content.values():
        shape = shapes.get(_named(body["schema"]), body["schema"])
        for name, one in shape.get("properties", {}).items():
            found.append((f"`{name}`", "body", _type(one), one.get("description", "")))
    return found


def _answer(status: str, answer: dict[str, Any]) -> str:
    kinds = answer.get("content", {})
    shapes = {_named(one.get("schema", {})) for one in kinds.values()} - {""}
    what = ", ".join(f"`{shape}`" for shape in sorted(shapes)) or ", ".join(kinds)
    return f"{status} ({what})" if what else status


def _named(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        kinds = [_type(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    return _named(schema) or str(schema.get("type", "any"))
