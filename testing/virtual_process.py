"""
A worker process of a simulation: the real loop and the real leases, on a clock that is not, with
calls that get lost, and writes that go on while their worker is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from dramatiq.brokers.stub import StubBroker

from mulligan.actors.cache import RunCache
from mulligan.actors.leases import Lease, LeaseKeeper
from mulligan.actors.runtime import Runtime
from mulligan.actors.write_process import not_run
from mulligan.actors.writes import Write
from mulligan.decisions.decision import (
    AskModel,
    CallFunction,
    Effect,
    ObserveTool,
    RunTool,
)
from mulligan.errors import StoreUnavailable
from mulligan.events.store import EventStore
from mulligan.providers.port import (
    Answer,
    Cancellation,
    Failure,
    Hear,
    ModelRequest,
    Prepared,
    Provider,
)
from mulligan.schemas.run_context import RunContext
from mulligan.testing.given_code import DirectHints, GivenCode, carry_out
from mulligan.testing.turns import Turn
from mulligan.tools.registry import Tool
from mulligan.tools.result import ToolResult

LEASE_MS, MARGIN_MS = 10_000, 1_000

_BROKER = StubBroker(middleware=[])


class Surroundings(Protocol):
    """What a process is in."""

    log: EventStore

    def now_s(self) -> float:
        """The time that really passes, which no clock's setting changes."""
        ...

    def turn(self) -> Turn | None:
        """What is let go on now; None: what happens to the process itself, such as renewals."""
        ...

    def others_go_on(self) -> bool:
        """Whether what has come to a point stands there, and others may go on."""
        ...

    def is_lost(self) -> bool:
        """Whether a call, or its answer, is lost now."""
        ...

    def hint(self, task: str) -> None:
        """Send a message for a task."""
        ...

    def happens(self, key: str | None) -> None:
        """An effect takes place."""
        ...

    def has_happened(self, key: str) -> bool:
        """What somebody sees who looks for an effect."""
        ...


class VirtualProcess(Runtime):
    """One process. Its tasks share folds and leases, and end together when it is killed."""

    def __init__(
        self, world: Surroundings, provider: Provider, code: Mapping[str, Callable[..., Any]]
    ) -> None:
        store: Any = _LossyStore(world)
        super().__init__(
            store,
            _BROKER,
            _Standing(world, provider),
            LeaseKeeper(store, lease_ms=LEASE_MS, margin_ms=MARGIN_MS, clock=world.now_s),
            lease_ms=LEASE_MS,
        )
        self.world = world
        self.stopped_until_s = 0.0
        self.alive = True
        self.turns: list[Turn] = []
        self.writes: VirtualWrites = VirtualWrites(world, self.leases, code)
        self.cache = RunCache(store)
        self.code = _SeenCode(world, code)
        self.hints = DirectHints(world.hint)
        self.pause = lambda seconds: _reach(world, "pause")

    @property
    def awake(self) -> bool:
        """Whether it is not stopped."""
        return self.world.now_s() >= self.stopped_until_s

    def kill(self) -> None:
        """It is gone, and what it was doing with it."""
        self.alive = False
        for turn in self.turns:
            turn.kill()
        self.writes.pending.clear()

    def _declare(self, name: str) -> None:
        """Nobody reads its queue: what is delivered is worked directly."""


def _reach(world: Surroundings, point: str, *, always: bool = False) -> None:
    turn = world.turn()
    if turn is not None and (always or turn.killed or world.others_go_on()):
        turn.reach(point)


class _LossyStore:
    """The log as a process sees it: its calls may be overtaken, and get lost."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._world.log, name)
        if name not in ("append", "claim", "renew", "give_back"):
            return found

        def called(*arguments: Any) -> Any:
            _reach(self._world, f"{name}.before")
            if self._world.is_lost():
                raise StoreUnavailable("virtual", "a call was lost")
            answer = found(*arguments)
            if self._world.is_lost():
                raise StoreUnavailable("virtual", "an answer was lost")
            if name in ("append", "claim"):
                _reach(self._world, f"{name}.after")
            return answer

        return called


class _Standing:
    """A provider before and after whose answers others may go on."""

    def __init__(self, world: Surroundings, provider: Provider) -> None:
        self._world = world
        self._provider = provider

    def prepare(self, request: ModelRequest) -> Prepared:
        return self._provider.prepare(request)

    def ask(
        self, prepared: Prepared, cancellation: Cancellation, hear: Hear | None = None
    ) -> Answer | Failure:
        _reach(self._world, "model.before")
        answer = self._provider.ask(prepared, cancellation, hear)
        _reach(self._world, "model.after")
        return answer

    def close(self) -> None:
        self._provider.close()


# --- Effects -------------------------------------------------------------------------------------


class PendingWrite:
    """A write that is under way in a process of its own, which its lease's end ends."""

    def __init__(self, lease: Lease, act: Callable[[], ToolResult]) -> None:
        self.lease = lease
        self.result: ToolResult | None = None
        self._act = act

    def act(self) -> None:
        """It takes effect now."""
        self.result = self._act()


class VirtualWrites:
    """`Writes` that may take effect at any moment until their lease ends, worker awake or not."""

    def __init__(
        self,
        world: Surroundings,
        leases: LeaseKeeper,
        code: Mapping[str, Callable[..., Any]],
    ) -> None:
        self._world = world
        self._leases = leases
        self._code = code
        self.pending: list[PendingWrite] = []

    def run(self, lease: Lease, write: Write) -> ToolResult | None:
        """See `Writes.run`."""
        if not self._leases.renew(lease):
            return not_run("the lease on its task was lost before it began")
        under_way = PendingWrite(lease, lambda: self._act(write))
        self.pending.append(under_way)
        _reach(self._world, "write.under_way", always=True)
        if under_way in self.pending:
            self.act(under_way)
        _reach(self._world, "write.done", always=True)
        return under_way.result

    def act(self, under_way: PendingWrite) -> None:
        """Let one take effect, unless its lease's end has ended it."""
        self.pending.remove(under_way)
        if self._world.now_s() < under_way.lease.deadline_s:
            under_way.act()

    def close(self) -> None:
        """See `Writes.close`."""

    def _act(self, write: Write) -> ToolResult:
        found: Any = self._code[write.path]
        function = write.kind == "function"
        seen = _seen(self._world, found) if function else _SeenTool(self._world, found)
        return carry_out(write, seen)


class _SeenTool:
    """A tool whose effects somebody sees, and whose calls are observed by what was seen."""

    def __init__(self, world: Surroundings, tool: Tool[..., Any]) -> None:
        self._world = world
        self._tool = tool

    def call(
        self, arguments: Any, *, key: str | None = None, context: RunContext | None = None
    ) -> ToolResult:
        self._world.happens(key)
        return self._tool.call(arguments, key=key, context=context)

    def observe(
        self, arguments: Any, *, key: str | None = None, context: RunContext | None = None
    ) -> Literal["succeeded", "not_started"]:
        seen = key is not None and self._world.has_happened(key)
        return "succeeded" if seen else "not_started"


def _seen(world: Surroundings, function: Callable[..., Any]) -> Callable[..., Any]:
    def called(**arguments: Any) -> Any:
        world.happens(arguments.get("idempotency_key"))
        return function(**arguments)

    return called


class _SeenCode(GivenCode):
    """The code that a test hands in, whose effects somebody sees."""

    def __init__(self, world: Surroundings, code: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(code)
        self._world = world

    def of(self, effect: Effect, folders: tuple[str, ...]) -> Any:
        """Asked before an effect is announced, and again before it takes place."""
        if isinstance(effect, AskModel):
            return None
        _reach(self._world, "effect.before")
        found = super().of(effect, folders)
        match effect:
            case RunTool() | ObserveTool():
                return _SeenTool(self._world, found)
            case CallFunction():
                return _seen(self._world, found)
            case _:
                return found
