"""
A worker of toy runs that can be stopped after every step, as a crash would stop it.

It has no clock: it goes on as if its lease held for ever, as one would whose clock is wrong. What
keeps it from harm is the log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from random import Random
from typing import Protocol, TypeVar

from mulligan.errors import AppendRefused, InboxMoved, RunClosed, RunUnknown, StoreUnavailable
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import ToolSucceeded
from mulligan.events.store import (
    Append,
    AsFact,
    ByTask,
    Claimed,
    EventStore,
    Held,
    Move,
    NotClaimed,
    Writer,
)
from mulligan.events.tasks import parse_task, run_task
from mulligan.testing.toy_run import (
    Decision,
    Pace,
    Toy,
    completed,
    decide_node,
    decide_run,
    parked,
    succeeded,
)

Answer = TypeVar("Answer")
Steps = Generator[str, None, Answer]
"""Yields the name of each point at which the worker may be stopped, paused or killed."""

DECISIONS_A_CLAIM = 20


class Surroundings(Protocol):
    """What a worker touches besides the log."""

    store: EventStore
    random: Random
    pace: Pace
    lost_calls: float
    """share of calls whose request or reply is lost"""

    def act(self, run: str, call: str) -> None:
        """Have the call's effect on the world."""

    def hint(self, task: str) -> None:
        """Send a message for a task."""

    def mint_token(self) -> str:
        """A fresh token."""


class ToyWorker:
    """Works one message: claims its task, loads, decides, acts, records; see `steps`."""

    def __init__(self, around: Surroundings, task: str) -> None:
        self.around = around
        self.task = task
        self.run, _, self.node = parse_task(task)
        self.token = ""
        self.op = ""
        self.inbox = 0
        self.call: str | None = None

    def steps(self) -> Steps[None]:
        """Work the message to its end."""
        self.token = self.around.mint_token()
        claim = yield from self._surely(
            lambda: self.around.store.claim(
                self.run, self.task, self.token, self.around.pace.lease_ms
            )
        )
        if isinstance(claim, NotClaimed):
            return
        self.op, self.inbox = claim.op, claim.inbox
        yield "claimed"
        try:
            yield from self._work(claim)
        except (AppendRefused, RunUnknown):
            return  # another works it, or nobody needs to: stop in silence

    def _work(self, claim: Claimed) -> Steps[None]:
        for _ in range(DECISIONS_A_CLAIM):
            toy = Toy.fold(self.run, self.around.store.read(self.run))
            yield "loaded"
            decision = self._decide(toy, claim)
            try:
                yield from self._append(decision)
            except InboxMoved as moved:
                self.inbox = moved.inbox  # before the log is read again, or a fact is missed
                continue
            if decision.call is None:
                return
            yield from self._act(decision.call)
            return
        self.around.store.give_back(Held(self.run, self.task, self.token))

    def _decide(self, toy: Toy, claim: Claimed) -> Decision:
        if claim.poison:
            return parked(self.run, self.node, self.task)
        if self.node:
            return decide_node(toy, self.node, self.around.pace)
        return decide_run(toy, self.inbox, self.around.pace)

    def _act(self, call: str) -> Steps[None]:
        self.call = call
        yield "intent recorded"
        if not self._still_holds():
            return  # the lease is lost; whoever has it decides what becomes of the intent
        self.around.act(self.run, call)
        yield "effect done"
        try:
            yield from self._append(completed(self.run, self.node, call))
        except RunClosed:
            yield from self._hand_in_receipt(call)

    def _hand_in_receipt(self, call: str) -> Steps[None]:
        """
        The run is cancelling or has ended; what the tool came to is true all the same. The log is
        read first: an append that ended this task is not known as repeated.
        """
        yield "closed out"
        if any(
            isinstance(event.data, ToolSucceeded) and event.data.call_id == call
            for event in self.around.store.read(self.run)
        ):
            return
        receipt = AsFact(call, receipt=True)
        wake = (Move(run_task(self.run), "wake"),)
        yield from self._write(receipt, (succeeded(self.node, call),), wake, None)

    def _still_holds(self) -> bool:
        held = Held(self.run, self.task, self.token)
        return self.around.store.renew([held], self.around.pace.lease_ms)[self.task] is not None

    def _append(self, decision: Decision) -> Steps[None]:
        intent = decision.call is not None
        writer = ByTask(self.task, self.token, self.op, self.inbox, intent)
        yield from self._write(writer, decision.events, decision.moves, decision.phase)

    def _write(
        self,
        writer: Writer,
        events: tuple[NewEvent, ...],
        moves: tuple[Move, ...],
        phase: str | None,
    ) -> Steps[None]:
        op = f"{self.around.random.getrandbits(96):024x}"
        append = Append(
            run=self.run,
            op=op,
            writer=writer,
            events=events,
            moves=moves,
            phase=phase,  # type: ignore[arg-type]  # a Decision's
        )
        yield from self._surely(lambda: self.around.store.append(append))
        self.op = op
        yield "recorded"
        self._hint(moves)

    def _hint(self, moves: Iterable[Move]) -> None:
        for move in moves:
            if move.to in ("ready", "wake"):
                self.around.hint(move.task)

    def _surely(self, call: Callable[[], Answer]) -> Steps[Answer]:
        """Ask until an answer comes: the same call again, since it may have been done."""
        while True:
            try:
                return self._ask(call)
            except StoreUnavailable:
                yield "no answer"

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        fate = self.around.random.random()
        if fate < self.around.lost_calls / 2:
            raise StoreUnavailable("the request was lost")
        try:
            answer = call()
        except (AppendRefused, RunUnknown):
            if fate < self.around.lost_calls:
                raise StoreUnavailable("the refusal was lost") from None
            raise
        if fate < self.around.lost_calls:
            raise StoreUnavailable("the reply was lost")
        return answer
