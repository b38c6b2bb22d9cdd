"""A function's signature as a model of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.errors import PydanticUserError

from mulligan.errors import InvalidInput
from mulligan.schemas.call_names import KEY
from mulligan.schemas.run_context import RUN_CONTEXT

__all__ = ["arguments_model", "takes"]


def arguments_model(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    """
    A pydantic model with a field for every parameter of `function` but the key and the context.

    Raises InvalidInput for parameters without a type, of a type that JSON can't carry, and those
    that can't be given by name.
    """
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise InvalidInput(
            f"tool {name!r}: its types name {error.name!r}, unknown there"
        ) from error
    given = (KEY, RUN_CONTEXT)
    parameters = [one for one in signature.parameters.values() if one.name not in given]
    fields: dict[str, Any] = {parameter.name: _field(name, parameter) for parameter in parameters}
    try:
        model: type[BaseModel] = create_model(
            name, __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields
        )
        model.model_json_schema()
    except (PydanticUserError, NameError, ValueError) as error:
        detail = str(error).splitlines()[0]
        raise InvalidInput(f"tool {name!r}: its arguments are not JSON: {detail}") from error
    return model


def _field(name: str, parameter: inspect.Parameter) -> tuple[Any, Any]:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise InvalidInput(f"tool {name!r}: {parameter} can't be given by name")
    if parameter.annotation is parameter.empty:
        raise InvalidInput(
            f"tool {name!r}: {parameter.name!r} has no type; write {parameter.name}: str, say"
        )
    return parameter.annotation, ... if parameter.default is parameter.empty else parameter.default


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether `function` has a parameter `name`, or takes any by name."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)
