"""
`Client.schedules` for asynchronous programs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mulligan.events.facts import CatchUpPolicy, OverlapPolicy, Priority
from mulligan.flow import Flow
from mulligan.schedule_views import ScheduleList, ScheduleView

if TYPE_CHECKING:
    from mulligan.client import Client

T = TypeVar("T")


class Call(Protocol):
    """Makes a call in a thread."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class AsyncSchedules:
    """Every method does what that of `Schedules` does, and raises the same."""

    def __init__(self, client: Client, call: Call) -> None:
        self._schedules = client.schedules
        self._call = call

    async def create(
        self,
        name: str,
        workflow: Flow,
        input: Any = None,  # noqa: A002 - the field's name
        *,
        cron: str,
        timezone: str = "UTC",
        model: str | None = None,
        tags: tuple[str, ...] = (),
        priority: Priority = 0,
        tenant: str | None = None,
        overlap: OverlapPolicy = "skip",
        catch_up: CatchUpPolicy = "last",
        replace: bool = False,
        by: str = "operator",
    ) -> bool:
        """See `Schedules.create`."""
        return await self._call(
            partial(
                self._schedules.create,
                name,
                workflow,
                input,
                cron=cron,
                timezone=timezone,
                model=model,
                tags=tags,
                priority=priority,
                tenant=tenant,
                overlap=overlap,
                catch_up=catch_up,
                replace=replace,
                by=by,
            )
        )

    async def list(self) -> ScheduleList:
        """See `Schedules.list`."""
        return await self._call(self._schedules.list)

    async def show(self, name: str) -> ScheduleView:
        """See `Schedules.show`."""
        return await self._call(partial(self._schedules.show, name))

    async def pause(self, name: str, reason: str = "", *, by: str = "operator") -> bool:
        """See `Schedules.pause`."""
        return await self._call(partial(self._schedules.pause, name, reason, by=by))

    async def resume(self, name: str, *, by: str = "operator") -> bool:
        """See `Schedules.resume`."""
        return await self._call(partial(self._schedules.resume, name, by=by))

    async def remove(self, name: str, *, by: str = "operator") -> bool:
        """See `Schedules.remove`."""
        return await self._call(partial(self._schedules.remove, name, by=by))

    async def run_now(self, name: str, *, key: str | None = None, by: str = "operator") -> str:
        """See `Schedules.run_now`."""
        return await self._call(partial(self._schedules.run_now, name, key=key, by=by))
