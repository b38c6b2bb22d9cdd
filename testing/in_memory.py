"""
Whole runs in one thread and in memory: the real decisions and the real loop, no server, no clock.

    >>> from mulligan import Workflow
    >>> from mulligan.testing.in_memory import InMemory
    >>> from mulligan.testing.scripted_provider import ScriptedProvider
    >>> flow = Workflow("greet", model="any")
    >>> _ = flow.agent("greet", prompt="Greet {input}.", output={"type": "object"})
    >>> world = InMemory(provider=ScriptedProvider([{"says": "Hello"}]))
    >>> world.run(flow, "you").status
    'completed'
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from dramatiq.brokers.stub import StubBroker

from mulligan.actors.code import load, server_tool
from mulligan.actors.leases import Lease, LeaseKeeper
from mulligan.actors.runtime import Runtime
from mulligan.actors.server_clock import ServerClocks
from mulligan.actors.session import work
from mulligan.actors.tracing import Tracing
from mulligan.actors.writes import Write
from mulligan.decisions import people
from mulligan.events.envelope import Envelope
from mulligan.events.memory_slots import MemorySlots
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import EventStore, Swept
from mulligan.flow import Flow, compile_flow
from mulligan.projections.run import fold
from mulligan.projections.state import RunState
from mulligan.providers.lanes import Lanes
from mulligan.providers.port import (
    Answer,
    Cancellation,
    Failure,
    Hear,
    ModelRequest,
    Prepared,
    Provider,
)
from mulligan.settings import RequestLimit
from mulligan.testing.given_code import DirectHints, GivenCode, carry_out
from mulligan.tools.result import ToolResult

LEASE_MS = 10_000


class InMemory:
    """
    A world with one log and one worker, which takes up woken tasks in an order drawn from `seed`
    (None: as they come). Its clock stands still while there is work, and then jumps to what is due.

    `code` gives the functions and tools that plans name by their paths, whatever their digests;
    without it they are imported, as a worker would.
    `meddle` may put something between the world and its log that loses replies or comes first.
    `limits` are a deployment's `model_limits`, kept by `slots`; `tracing` makes, of the log, who is
    told of spans.
    """

    def __init__(
        self,
        *,
        provider: Provider | None = None,
        code: Mapping[str, Callable[..., Any]] | None = None,
        seed: int | None = None,
        meddle: Callable[[EventStore], EventStore] = lambda store: store,
        limits: Mapping[str, RequestLimit] | None = None,
        tracing: Callable[[EventStore], Tracing] | None = None,
    ) -> None:
        self.now_ms = 1_000
        self._set_forward_ms = 0
        self.store: EventStore = meddle(MemoryEventStore(lambda: self.now_ms))
        self._woken: list[str] = []
        self._random = random.Random(seed) if seed is not None else None
        self.slots = MemorySlots(lambda: self.now_ms)
        self._runtime = _Runtime(self, provider or _Silent(), code, Lanes(limits or {}))
        if tracing is not None:
            self._runtime.tracing = tracing(self.store)

    def run(self, workflow: Flow, input: Any = None, run: str = "run") -> RunState:  # noqa: A002 - the field's name
        """Request a run and work it until it ends or waits for somebody."""
        plan = compile_flow(workflow, default_model="scripted/any")
        self.store.append(people.request(run, f"request-{run}", plan, input))
        self.work()
        return self.state(run)

    def work(self) -> None:
        """Work whatever there is, until nothing is due any more."""
        while (task := self._next()) is not None:
            work(self._runtime, task)

    def set_clock_forward(self, by_ms: int) -> None:
        """The log's clock is set, as no time has passed."""
        self.now_ms += by_ms
        self._set_forward_ms += by_ms

    def passed_s(self) -> float:
        """The time that has really passed, as a process knows it."""
        return (self.now_ms - self._set_forward_ms) / 1_000

    def state(self, run: str = "run") -> RunState:
        """A run's state, folded anew from its log."""
        return fold(run, self.events(run))

    def events(self, run: str = "run") -> list[Envelope]:
        """A run's events."""
        return self.store.read(run)

    def wake(self, task: str) -> None:
        """As a message would: `task` is taken up some time."""
        self._woken.append(task)

    def _next(self) -> str | None:
        if not self._woken:
            self._woken += self._due()
        if not self._woken:
            return None
        at = self._random.randrange(len(self._woken)) if self._random is not None else 0
        return self._woken.pop(at)

    def _due(self) -> tuple[str, ...]:
        swept = self._sweep()
        while not swept.tasks and swept.next_in_ms is not None:
            self.now_ms += max(swept.next_in_ms, 1)
            swept = self._sweep()
        return swept.tasks

    def _sweep(self) -> Swept:
        swept = self.store.sweep()
        self._runtime.clocks.seen(0, swept.now_ms[0], self.passed_s())
        return swept


class _Runtime(Runtime):
    def __init__(
        self,
        world: InMemory,
        provider: Provider,
        code: Mapping[str, Callable[..., Any]] | None,
        lanes: Lanes,
    ) -> None:
        super().__init__(
            world.store,
            StubBroker(middleware=[]),
            provider,
            cast(LeaseKeeper, _Unlosable()),
            lease_ms=LEASE_MS,
            lanes=lanes,
            slots=world.slots,
        )
        self.clocks = ServerClocks(LEASE_MS, LEASE_MS // 10, world.passed_s)
        if code is not None:
            self.code = GivenCode(code)
        self.writes = _InPlace(code)
        self.hints = DirectHints(world.wake)


class _Unlosable:
    """Leases where nobody else could take one."""

    lost = False
    margin_ms = LEASE_MS // 10

    def now_s(self) -> float:
        return 0.0

    @contextmanager
    def hold(self, *_: object) -> Iterator[_Unlosable]:
        yield self

    def may_start(self) -> bool:
        return True

    def renew(self, lease: _Unlosable) -> bool:
        return True

    def on_stop(self, callback: Callable[[], None]) -> None:
        pass


class _InPlace:
    """Writes done in this thread, where nobody else could take the lease."""

    def __init__(self, code: Mapping[str, Callable[..., Any]] | None) -> None:
        self._code = code

    def run(self, lease: Lease, write: Write) -> ToolResult:
        found: Any
        if self._code is not None:
            found = self._code[write.path]
        elif write.server_tool is not None:
            found = server_tool(write.server_tool)
        else:
            found = load(write.path, write.digest, write.folders)
        return carry_out(write, found)

    def close(self) -> None:
        pass


class _Silent:
    """No model: asking one is an error of the test."""

    def prepare(self, request: ModelRequest) -> Prepared:
        raise AssertionError(f"{request.request_id}: this world has no model")

    def ask(
        self, prepared: Prepared, cancellation: Cancellation, hear: Hear | None = None
    ) -> Answer | Failure:
        raise AssertionError("this world has no model")

    def close(self) -> None:
        pass
