"""
Tools: typed Python functions that agents may call.

`@tool` makes one. Its name, description and arguments come from the function: its name, its
docstring, its signature. Its effect class says whether a call may be repeated (REC-31); left out,
it is `write`, which is never repeated on its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, get_args, overload

from pydantic import BaseModel, ValidationError

from mulligan.errors import InvalidInput
from mulligan.events.facts import EffectClass, ToolOutcome
from mulligan.schemas.call_names import KEY
from mulligan.schemas.code import code_digest, import_code, import_path_of
from mulligan.schemas.run_context import RUN_CONTEXT, RunContext
from mulligan.schemas.strict import drop_strict_nulls
from mulligan.schemas.tool_spec import EffectCase, Permission, ToolSpec
from mulligan.tools.call import acall_function, call_function, finished
from mulligan.tools.result import ToolResult, invalid_arguments
from mulligan.tools.signature import arguments_model, takes

__all__ = ["Tool", "resolve_tool", "tool"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Tool(Generic[_P, _R]):
    """
    A function with what an agent and the runtime need to know of it.

    Calling the tool calls the function. `verify`, for a `write`, is asked after a crash whether a
    call took effect: it takes arguments of the tool (those it names, and `idempotency_key` and
    `run_context` if it names them) and returns True, False, or None if it can't tell.
    """

    def __init__(
        self,
        function: Callable[_P, _R],
        *,
        name: str | None = None,
        effect: EffectClass = "write",
        timeout_ms: int | None = None,
        verify: Callable[..., bool | None] | None = None,
        permission: Permission = "allow",
        cases: Sequence[EffectCase] = (),
    ) -> None:
        for one in (effect, *(case.effect for case in cases)):
            if one not in get_args(EffectClass):
                raise InvalidInput(f"effect is read, idempotent or write, not {one!r}")
        if timeout_ms is not None and timeout_ms <= 0:
            raise InvalidInput(f"timeout_ms is above 0, not {timeout_ms}")
        if permission not in get_args(Permission):
            raise InvalidInput(f"permission is allow or ask, not {permission!r}")
        self.function = function
        self.name = name or function.__name__
        self.effect: EffectClass = effect
        self.timeout_ms = timeout_ms
        self.verify = verify
        self.permission: Permission = permission
        self.cases = tuple(cases)
        functools.update_wrapper(self, function)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name!r} ({self.effect})>"

    @functools.cached_property
    def arguments(self) -> type[BaseModel]:
        """The model of the arguments. Raises InvalidInput where the signature can't be one."""
        return arguments_model(self.name, self.function)

    @functools.cached_property
    def parameters(self) -> dict[str, Any]:
        """The plain JSON Schema of the arguments."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return schema

    def spec(self) -> ToolSpec:
        """What a plan records of the tool. Raises InvalidInput where workers could not find it."""
        return ToolSpec(
            name=self.name,
            description=inspect.getdoc(self.function) or "",
            parameters=self.parameters,
            effect=self.effect,
            path=import_path_of(self.function),
            digest=code_digest(self.function),
            timeout_ms=self.timeout_ms,
            verifiable=self.verify is not None,
            permission=self.permission,
            cases=self.cases,
        )

    def call(
        self,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        context: RunContext | None = None,
    ) -> ToolResult:
        """
        Run the tool with arguments as JSON values; `key` is the call's idempotency key, `context`
        tells of the run that it is made for, None outside a run.

        Never raises for what the tool does: a failure of any kind is a result with `is_error`.
        An asynchronous function runs in an event loop of its own; where a loop is running already,
        that raises RuntimeError, and `acall` is the one to use.
        """
        given = self._validated(arguments, key, context)
        if isinstance(given, ToolResult):
            return given
        return call_function(self.function, given)

    async def acall(
        self,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        context: RunContext | None = None,
    ) -> ToolResult:
        """`call` for a running event loop; a synchronous function runs in a thread."""
        given = self._validated(arguments, key, context)
        if isinstance(given, ToolResult):
            return given
        return await acall_function(self.function, given)

    def observe(
        self,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        context: RunContext | None = None,
    ) -> ToolOutcome:
        """
        What `verify` says of a call that left no receipt (REC-31).

        `succeeded`, `not_started`, or `unknown` where it can't tell, fails, or is not there.
        """
        given = self._validated(arguments, key, context)
        if self.verify is None or isinstance(given, ToolResult):
            return "unknown"
        offered = {**given, KEY: key, RUN_CONTEXT: context}
        try:
            taken = {name: value for name, value in offered.items() if takes(self.verify, name)}
            seen = finished(self.verify(**taken))
        except Exception:
            return "unknown"
        return "succeeded" if seen is True else "not_started" if seen is False else "unknown"

    def _validated(
        self, arguments: Mapping[str, Any], key: str | None, context: RunContext | None
    ) -> dict[str, Any] | ToolResult:
        plain = drop_strict_nulls(self.parameters, dict(arguments))
        try:
            model = self.arguments.model_validate(plain)
        except ValidationError as error:
            return invalid_arguments(error)
        given = {name: getattr(model, name) for name in type(model).model_fields}
        offered = {KEY: key, RUN_CONTEXT: context}
        return given | {n: value for n, value in offered.items() if takes(self.function, n)}


@overload
def tool(function: Callable[_P, _R], /) -> Tool[_P, _R]: ...


@overload
def tool(
    *,
    effect: EffectClass = "write",
    timeout_ms: int | None = None,
    verify: Callable[..., bool | None] | None = None,
    name: str | None = None,
    permission: Permission = "allow",
    cases: Sequence[EffectCase] = (),
) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectClass = "write",
    timeout_ms: int | None = None,
    verify: Callable[..., bool | None] | None = None,
    name: str | None = None,
    permission: Permission = "allow",
    cases: Sequence[EffectCase] = (),
) -> Any:
    """
    Make a function a tool.

    Args:
        effect: `read` and `idempotent` calls are repeated after a crash (the latter with the same
            `idempotency_key`, which the function gets if it has a parameter of that name); `write`
            calls never on their own.
        timeout_ms: how long a call may take; 60 s if it is not given.
        verify: for a `write`: tells after a crash whether the call took effect.
        name: what the model calls it, if not the function's name.
        permission: with `ask` every call waits until a person approves it, whatever the workflow
            says; a workflow can ask before calls of other tools too (`ask_before`).
        cases: calls of another effect class than `effect`, by their arguments; the first that fits
            counts.

    Raises InvalidInput for an unknown effect class or permission, or a timeout that is none.
    """

    def decorate(function: Callable[..., Any]) -> Tool[..., Any]:
        return Tool(
            function,
            name=name,
            effect=effect,
            timeout_ms=timeout_ms,
            verify=verify,
            permission=permission,
            cases=cases,
        )

    return decorate if function is None else decorate(function)


def resolve_tool(path: str) -> Tool[..., Any]:
    """The tool at `module:attribute`. Raises InvalidInput where there is none."""
    found = import_code(path)
    if not isinstance(found, Tool):
        raise InvalidInput(f"{path} is not a tool; decorate the function with @tool")
    return found
