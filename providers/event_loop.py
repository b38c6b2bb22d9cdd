"""
The event loop of model requests: one, in a thread of its own, whatever thread asks.

A blocking read can't be interrupted from another thread; a task can be cancelled, and closes its
connection as it unwinds (REC-27).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from mulligan.providers.port import Cancellation

Result = TypeVar("Result")


class ModelLoop:
    """Begun on first use; `close` ends it and everything that still runs on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(
        self, work: Callable[[], Coroutine[Any, Any, Result]], cancellation: Cancellation
    ) -> Result | None:
        """
        Run `work` on the loop and wait for its result; None if it was cancelled.

        Returns only when the work has unwound, its connection closed with it.
        """
        if cancellation.cancelled:
            return None
        with self._lock:
            # Under the lock: `close` must find the errand on the loop, or it would wait for ever.
            errand = _Errand(self._running(), work())
        cancellation.subscribe(errand.cancel)
        try:
            return errand.wait()
        finally:
            errand.cancel()

    def close(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """
        Cancel what runs, run `farewell`, end the loop and its thread; safe to call again.
        """
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_wind_up(farewell), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise RuntimeError("the provider is closed")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name="model-io", daemon=True
            )
            self._thread.start()
        return self._loop


class _Errand(Generic[Result]):
    """One coroutine on the loop, waited for by a thread outside it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Result]
    ) -> None:
        self._loop = loop
        self._ended = threading.Event()
        self._task: asyncio.Task[Result] | None = None
        loop.call_soon_threadsafe(self._begin, coroutine)

    def wait(self) -> Result | None:
        self._ended.wait()
        task, self._task = self._task, None
        return None if task is None or task.cancelled() else task.result()

    def cancel(self) -> None:
        if not self._ended.is_set():
            self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._task = self._loop.create_task(coroutine)
        self._task.add_done_callback(lambda task: self._ended.set())

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _wind_up(farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await farewell()
