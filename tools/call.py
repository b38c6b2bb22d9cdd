"""Calling a function, sync or async, so that whatever happens comes back as a result."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mulligan.tools.result import ToolResult, failure, success

__all__ = ["acall_function", "call_function", "finished"]


ENDS_OF_ITS_OWN = (Exception, SystemExit, asyncio.CancelledError)
"""A function that calls `sys.exit` has failed, and must not take its worker for poison."""


def call_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> ToolResult:
    """
    Call `function` with `arguments` by name; what it raises is a result with `is_error`.

    An asynchronous function runs in an event loop of its own. Where a loop is running already in
    this thread, that raises RuntimeError: await `acall_function` there.
    """
    if inspect.iscoroutinefunction(function):
        _refuse_running_loop()
    try:
        return success(finished(function(**arguments)))
    except ENDS_OF_ITS_OWN as error:
        return failure(error)


async def acall_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> ToolResult:
    """`call_function` for a running event loop; a synchronous function runs in a thread."""
    try:
        if inspect.iscoroutinefunction(function):
            return success(await function(**arguments))
        value = await asyncio.to_thread(functools.partial(function, **arguments))
        return success(await value if inspect.isawaitable(value) else value)
    except (Exception, SystemExit) as error:
        return failure(error)


def finished(value: Any) -> Any:
    """`value`, or what it comes to if it is awaitable."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("an asynchronous function, called in a running event loop: await acall")
