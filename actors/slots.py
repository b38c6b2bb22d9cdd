"""
The slots that a process holds while it asks models: taken before a request is announced, renewed by
one thread, given back when its answer is in (REC-34).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
import structlog
from msgspec.structs import replace

from mulligan.decisions.decision import AskModel, Context, Decision, ModelOutcome, NoSlot, Outcome
from mulligan.decisions.slots import place_of
from mulligan.decisions.task import decide
from mulligan.errors import MulliganError, StoreUnavailable
from mulligan.events.slots import Called, Lane, Queued, Refused, Slots
from mulligan.events.tenants import REQUESTS, gate_of
from mulligan.projections.state import RunState
from mulligan.providers.lanes import Lanes
from mulligan.providers.limits import TOKENS_PER_MESSAGE, tokens_of
from mulligan.providers.port import Answer, Failure, Prepared

UNKNOWN_AGAIN_MS = 1_000
"""How soon a task looks again whose slot nobody could be asked for."""

RENEWALS = 3
"""In the time that a slot is held for."""

Caller = Callable[[Called], bool]
"""Tells a waiter that its turn has come; False: it is gone, and waits no more."""

THOUGHT_OF_OUTPUT = 1_000
"""Tokens that an answer is thought to take whose request sets no limit."""

_log = structlog.get_logger(__name__)


class Holding(msgspec.Struct, frozen=True):
    """A slot that is held: where, for which tenant, and how many tokens it is thought to take."""

    lane: Lane
    tenant: str | None = None
    tokens: int = 0


class SlotKeeper:
    """
    All slots of a process; safe for use by threads. Where `lanes` limit nothing, `slots` are never
    asked.

    Args:
        call: tells waiters of other processes too.
        hold_ms: how long a slot outlives a process that is lost.
    """

    def __init__(self, slots: Slots, lanes: Lanes, call: Caller, *, hold_ms: int) -> None:
        self.lanes = lanes
        self._slots = slots
        self._call = call
        self._hold_ms = hold_ms
        self._changed = threading.Condition()
        self._held: dict[str, Holding] = {}
        self._ended = False
        self._thread: threading.Thread | None = None

    def take(self, wanted: Holding, waiter: str, token: str, since_ms: int | None) -> Queued | None:
        """
        Hold a slot under `token`, or wait: for how long, if nobody calls.

        Raises:
            StoreUnavailable: nobody answers.
        """
        lane = wanted.lane
        answer = self._slots.take(
            lane,
            waiter,
            token,
            hold_ms=self._hold_ms,
            since_ms=since_ms,
            tenant=wanted.tenant,
            tokens=wanted.tokens,
        )
        assert not isinstance(answer, Refused)  # only runs are
        if not isinstance(answer, Queued):
            self._hold(token, wanted)
        self.tell(lane, answer.called)
        return answer if isinstance(answer, Queued) else None

    def give_back(self, token: str, pause_ms: int = 0, took: int | None = None) -> None:
        """
        Hold it no longer, and call who comes next; one that can't be given back runs out. `took`
        are the tokens that the request really took, if that is known.
        """
        with self._changed:
            held = self._held.pop(token, None)
        if held is None:
            return
        more = took - held.tokens if took is not None and held.tenant is not None else 0
        try:
            called = self._slots.give_back(
                held.lane, token, pause_ms=pause_ms, tenant=held.tenant, tokens=more
            )
            self.tell(held.lane, called)
        except MulliganError as error:
            _log.warning("slot_not_given_back", lane=held.lane.name, error=type(error).__name__)

    def leave(self, lane: Lane, waiter: str, tenant: str | None = None) -> None:
        """Wait no longer; one that can't be taken out is passed over some time."""
        try:
            self.tell(lane, self._slots.leave(lane, waiter, tenant=tenant))
        except MulliganError as error:
            _log.warning("lane_not_left", lane=lane.name, error=type(error).__name__)

    def renew_all(self) -> None:
        """One round of what the thread does."""
        with self._changed:
            held = [pair for token, one in self._held.items() for pair in _renewed(token, one)]
        try:
            if held:
                self._slots.renew(held, self._hold_ms)
        except MulliganError as error:
            _log.warning("slots_not_renewed", held=len(held), error=type(error).__name__)

    def close(self) -> None:
        """Give back whatever is held, and let go of connections."""
        for token in list(self._held):
            self.give_back(token)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._slots.close()

    def _hold(self, token: str, held: Holding) -> None:
        with self._changed:
            self._held[token] = held
            if self._thread is None or not self._thread.is_alive():  # a fork leaves threads behind
                self._thread = threading.Thread(target=self._renew, name="slots", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def tell(self, lane: Lane, called: Iterable[Called]) -> None:
        """Tell those whose turn it is; in the place of one that is gone comes the next."""
        to_tell = deque((lane, one) for one in called)
        while to_tell:
            own, one = to_tell.popleft()
            if not self._call(one):
                where = self.lanes.named(one.lane) if one.lane is not None else own
                left = self._slots.leave(where, one.waiter, tenant=one.tenant)
                to_tell.extend((where, after) for after in left)

    def _renew(self) -> None:
        while self._wait_for_next_round():
            try:
                self.renew_all()
            except Exception:  # without this thread slow requests would lose their slots
                _log.exception("slot_round_failed")

    def _wait_for_next_round(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._held)
            self._changed.wait_for(lambda: self._ended, self._hold_ms / RENEWALS / 1_000)
            return not self._ended


class RequestSlot:
    """
    The slot of one who sends requests one after the other: a task under a lease, or a call outside
    any run. `waiter` is how it is called, `token` what it holds slots under; one who is `patient`
    waits for a server that does not answer.
    """

    def __init__(
        self, keeper: SlotKeeper, waiter: str, token: str, *, patient: bool = True
    ) -> None:
        self._keeper = keeper
        self._waiter = waiter
        self._token = token
        self._patient = patient

    def take(
        self, prepared: Prepared, since_ms: int | None, tenant: str | None = None
    ) -> NoSlot | None:
        """
        Hold a slot for a request, if it needs one; else say how it has to wait.

        Raises:
            StoreUnavailable: nobody answers, and we are not patient.
        """
        lane = self._keeper.lanes.of(prepared.request)
        if lane is None:
            if tenant is None:
                return None
            lane = REQUESTS
        tokens = thought_of(prepared) if tenant is not None else 0
        wanted = Holding(lane, tenant, tokens)
        try:
            queued = self._keeper.take(wanted, self._waiter, self._token, since_ms)
        except StoreUnavailable as error:
            if not self._patient:
                raise
            _log.warning("no_slot_known", lane=lane.name, error=type(error).__name__)
            return NoSlot(lane.name, UNKNOWN_AGAIN_MS)
        if queued is None:
            return None
        return NoSlot(lane.name, queued.wait_ms, tenant if queued.by_tenant else None)

    def give_back(self, outcome: ModelOutcome | None = None) -> None:
        """
        Hold it no longer. If the request failed with a Retry-After, nobody asks there until then:
        the others would be told the same, each at the cost of its own allowance.
        """
        result = outcome.result if outcome is not None else None
        wait_ms = result.retry_after_ms if isinstance(result, Failure) and result.transient else 0
        self._keeper.give_back(self._token, wait_ms or 0, tokens_taken(result))

    def leave(self, lane: str, tenant: str | None = None) -> None:
        """Wait no longer."""
        self._keeper.leave(self._keeper.lanes.named(lane), self._waiter, tenant)


def thought_of(prepared: Prepared) -> int:
    """
    Tokens that a request is thought to take: of its messages and tools, by our rule, and of its
    answer, by the limit that it sets or else `THOUGHT_OF_OUTPUT`.
    """
    request = prepared.request
    texts = [message.content or "" for message in request.messages]
    texts += [call.arguments for message in request.messages for call in message.calls]
    texts += [str(offer.parameters) for offer in request.tools]
    caps = (prepared.sent.get(name) for name in ("max_tokens", "max_completion_tokens"))
    cap = next((cap for cap in caps if isinstance(cap, int)), THOUGHT_OF_OUTPUT)
    return sum(map(tokens_of, texts)) + TOKENS_PER_MESSAGE * len(request.messages) + cap


def tokens_taken(result: Answer | Failure | None) -> int | None:
    """Tokens that a request really took: as reported, none where it was refused; None: unknown."""
    if isinstance(result, Answer):
        usage = result.usage
        if usage is None or usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        return usage.prompt_tokens + usage.completion_tokens
    return 0 if result is not None and result.cause.status is not None else None


def _renewed(token: str, held: Holding) -> list[tuple[Lane, str]]:
    """What is renewed of a slot: its place in the lane, and among those of its tenant."""
    gates = [(gate_of(held.tenant, held.lane), token)] if held.tenant is not None else []
    return [(held.lane, token), *gates]


def decide_in_lane(
    slot: RequestSlot,
    state: RunState,
    task: str,
    context: Context,
    outcome: Outcome | None,
    *,
    record_only: bool = False,
) -> Decision:
    """
    `decide`, with the slot held that the decision needs, or as it is without one: what the last
    effect came to is recorded all the same.
    """
    decision = decide(state, task, context, outcome, record_only=record_only)
    place = place_of(state, task)
    if not isinstance(decision.effect, AskModel):
        slot.give_back()
        if place is not None:
            slot.leave(place.lane, state.tenant)
        return decision
    since_ms = place.since_ms if place is not None else None
    no_slot = slot.take(decision.effect.prepared, since_ms, state.tenant)
    if no_slot is None:
        return decision
    without = replace(context, no_slot=no_slot)
    return decide(state, task, without, outcome, record_only=record_only)
