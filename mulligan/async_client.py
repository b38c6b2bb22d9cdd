"""
The front door for asynchronous programs, such as a web application.

    async with AsyncClient() as client:
        run = await client.enqueue("brief.yaml", {"topic": "tea"})
        async for event in client.events(run, follow=True):
            print(event.type)
        print(await client.result(run))

It is the `Client` in threads of its own: short calls have some, calls that wait have others, so
that many who wait do not hold up an `enqueue`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mulligan import kept_plan
from mulligan.async_schedules import AsyncSchedules
from mulligan.client import Client, Decision, Outcome, output_of
from mulligan.decisions.answers import Given
from mulligan.errors import WaitTimedOut
from mulligan.events.envelope import Envelope
from mulligan.events.facts import Priority
from mulligan.events.tenants import TenantLimits, TenantList
from mulligan.flow import Flow
from mulligan.projections.open_requests import OpenRequest
from mulligan.projections.state import RunState
from mulligan.settings import Settings
from mulligan.trace_context import current_traceparent
from mulligan.watch import Watch

if TYPE_CHECKING:
    from mulligan.actors.archiver import Archived
    from mulligan.schemas.workflow import WorkflowDefinition

T = TypeVar("T")

SHORT_THREADS = 8
WAITING_THREADS = 32
"""More followers than that take turns, each of at most a second."""


class AsyncClient:
    """
    A connection to the log and the queue, within `async with`. Every method does what that of
    `Client` does, and raises the same.

    A call whose task is cancelled is not undone: what it asked for may be done. Repeat an `enqueue`
    with the same `run_id`.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._short = ThreadPoolExecutor(SHORT_THREADS, thread_name_prefix="mulligan")
        self._waiting = ThreadPoolExecutor(WAITING_THREADS, thread_name_prefix="mulligan-wait")
        self._connected: Client | None = None

    async def __aenter__(self) -> AsyncClient:
        self._connected = await self._in(self._short, partial(Client, self._settings))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections and threads; one that waits ends within a second."""
        client, self._connected = self._connected, None
        if client is not None:
            await self._in(self._short, client.close)
        self._short.shutdown(wait=False)
        self._waiting.shutdown(wait=False)

    @property
    def schedules(self) -> AsyncSchedules:
        """See `Client.schedules`."""
        return AsyncSchedules(self._client, self._call)

    # --- Producers -------------------------------------------------------------------------------

    async def enqueue(
        self,
        workflow: Flow,
        input: Any = None,  # noqa: A002 - the field's name
        *,
        run_id: str | None = None,
        tags: tuple[str, ...] = (),
        priority: Priority = 0,
        delay_ms: int = 0,
        model: str | None = None,
        origin_window: str | None = None,
        traceparent: str | None = None,
        tenant: str | None = None,
        told: Callable[[str], None] = kept_plan.warn,
    ) -> str:
        """See `Client.enqueue`."""
        return await self._call(
            partial(
                self._client.enqueue,
                workflow,
                input,
                run_id=run_id,
                tags=tags,
                priority=priority,
                delay_ms=delay_ms,
                model=model,
                origin_window=origin_window,
                # Looked up here: the thread that makes the call is within no span.
                traceparent=traceparent or current_traceparent(),
                tenant=tenant,
                told=told,
            )
        )

    async def tenants(self) -> TenantList:
        """See `Client.tenants`."""
        return await self._call(self._client.tenants)

    async def own_limits(self, tenant: str) -> TenantLimits:
        """See `Client.own_limits`."""
        return await self._call(partial(self._client.own_limits, tenant))

    async def limit_tenant(self, tenant: str, limits: TenantLimits | None) -> None:
        """See `Client.limit_tenant`."""
        await self._call(partial(self._client.limit_tenant, tenant, limits))

    async def fork(self, run: str, at_version: int, *, run_id: str | None = None) -> str:
        """See `Client.fork`."""
        return await self._call(partial(self._client.fork, run, at_version, run_id=run_id))

    async def changed_settings(self, workflow: str) -> dict[str, Any]:
        """See `Client.changed_settings`."""
        return await self._call(partial(self._client.changed_settings, workflow))

    async def change_settings(
        self, workflow: WorkflowDefinition, changes: Mapping[str, Any]
    ) -> None:
        """See `Client.change_settings`."""
        await self._call(partial(self._client.change_settings, workflow, changes))

    # --- Readers ---------------------------------------------------------------------------------

    async def status(self, run: str) -> RunState:
        """See `Client.status`."""
        return await self._call(partial(self._client.status, run))

    async def events(
        self, run: str, after: int = 0, *, follow: bool = False
    ) -> AsyncIterator[Envelope]:
        """See `Client.events`."""
        reading = self._client.reading(run, after, follow=follow)
        while reading.more:
            for event in await self._in(self._waiting, reading.page):
                yield event

    async def wait(self, run: str, *, timeout_s: float | None = None) -> RunState:
        """See `Client.wait`."""
        watch = await self._call(partial(Watch, self._client.store, run))
        try:
            async with asyncio.timeout(timeout_s):
                while not watch.over:
                    if await self._in(self._waiting, watch.look) and not watch.over:
                        await asyncio.sleep(watch.pause_s)
        except TimeoutError:
            status = watch.state.status
            raise WaitTimedOut(f"run {run!r} is still {status} after {timeout_s} s") from None
        return watch.state

    async def result(self, run: str, *, timeout_s: float | None = None) -> Any:
        """See `Client.result`."""
        output = output_of(await self.wait(run, timeout_s=timeout_s))
        return await self._call(partial(self._client.value, run, output))

    # --- Operators -------------------------------------------------------------------------------

    async def cancel(self, run: str, reason: str = "") -> bool:
        """See `Client.cancel`."""
        return await self._call(partial(self._client.cancel, run, reason))

    async def resume(self, run: str, node: str | None = None) -> None:
        """See `Client.resume`."""
        await self._call(partial(self._client.resume, run, node))

    async def archive(self, runs: Iterable[str]) -> Archived:
        """See `Client.archive`."""
        return await self._in(self._waiting, partial(self._client.archive, runs))

    async def redrive(self, run: str) -> None:
        """See `Client.redrive`."""
        await self._call(partial(self._client.redrive, run))

    async def reconcile(
        self, run: str, call_id: str, outcome: Outcome, *, by: str = "operator", result: Any = None
    ) -> None:
        """See `Client.reconcile`."""
        await self._call(
            partial(self._client.reconcile, run, call_id, outcome, by=by, result=result)
        )

    async def decide(
        self,
        run: str,
        decision: Decision,
        *,
        draft: Any = None,
        node: str | None = None,
        by: str = "operator",
    ) -> None:
        """See `Client.decide`."""
        await self._call(partial(self._client.decide, run, decision, draft=draft, node=node, by=by))

    async def question(
        self, run: str, *, node: str | None = None, request: str | None = None
    ) -> OpenRequest:
        """See `Client.question`."""
        return await self._call(partial(self._client.question, run, node=node, request=request))

    async def answer(
        self,
        run: str,
        answer: Given,
        *,
        node: str | None = None,
        request: str | None = None,
        by: str = "operator",
    ) -> bool:
        """See `Client.answer`."""
        return await self._call(
            partial(self._client.answer, run, answer, node=node, request=request, by=by)
        )

    async def approve(self, run: str, call_id: str, *, by: str = "operator") -> bool:
        """See `Client.approve`."""
        return await self._call(partial(self._client.approve, run, call_id, by=by))

    async def deny(self, run: str, call_id: str, reason: str = "", *, by: str = "operator") -> bool:
        """See `Client.deny`."""
        return await self._call(partial(self._client.deny, run, call_id, reason, by=by))

    async def signal(
        self,
        run: str,
        name: str,
        data: Any = None,
        *,
        key: str | None = None,
        by: str = "operator",
    ) -> bool:
        """See `Client.signal`."""
        return await self._call(partial(self._client.signal, run, name, data, key=key, by=by))

    @property
    def _client(self) -> Client:
        if self._connected is None:
            raise RuntimeError("not connected: use `async with AsyncClient() as client`")
        return self._connected

    async def _call(self, call: Callable[[], T]) -> T:
        return await self._in(self._short, call)

    async def _in(self, threads: Executor, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, call)
