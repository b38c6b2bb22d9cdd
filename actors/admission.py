"""
Which runs of tenants may begin: a run holds a place of its tenant from when it is asked for, or its
turn comes, until it ends or waits for a person.

A place is no lease: a run may wait for days without anybody at work on it. So places do not run
out; those that nobody has looked at for `HOLD_MS` are looked at, and given back where the log says
that the run does not go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from mulligan.actors.slots import UNKNOWN_AGAIN_MS, Caller
from mulligan.errors import InvalidInput, MulliganError, StoreUnavailable, TenantQueueFull
from mulligan.events.slots import Called, Lane, Load, Queued, Refused, Slots
from mulligan.events.tasks import run_task
from mulligan.events.tenants import (
    BUILT_IN,
    DEFAULT,
    REQUESTS,
    RUNS,
    TOGETHER,
    TenantLimits,
    TenantList,
    TenantView,
    check_tenant,
    gate_of,
    packed,
    unpacked,
)
from mulligan.projections.state import RunState

HOLD_MS = 10_000
"""How long a place is held without a look at its run: a lease, by default."""

_log = structlog.get_logger(__name__)


class Admission:
    """
    The places of all tenants' runs; safe for use by threads.

    Args:
        call: tells runs that their turn has come, wherever they are worked.
    """

    def __init__(self, slots: Slots, call: Caller) -> None:
        self._slots = slots
        self._call = call

    def enter(
        self, run: str, tenant: str, since_ms: int | None = None, *, bounded: bool = False
    ) -> int | None:
        """
        Take a place for a run, or stand in line: for how long, if nobody calls. `bounded` refuses
        what would be more in line than may.

        Raises:
            TenantQueueFull: it is refused.
            StoreUnavailable: nobody answers.
        """
        answer = self._slots.take(
            RUNS,
            run_task(run),
            _token(tenant, run),
            hold_ms=HOLD_MS,
            since_ms=since_ms,
            tenant=tenant,
            bounded=bounded,
        )
        if isinstance(answer, Refused):
            raise TenantQueueFull(tenant, answer.waiting)
        self.tell(answer.called)
        return answer.wait_ms if isinstance(answer, Queued) else None

    def wait_ms(self, state: RunState) -> int | None:
        """How long a run that has not begun has to wait; None: it may begin now."""
        if state.tenant is None or state.status != "queued":
            return None
        try:
            return self.enter(state.run, state.tenant, state.requested_ms)
        except StoreUnavailable as error:
            _log.warning("no_turn_known", error=type(error).__name__)
            return UNKNOWN_AGAIN_MS

    def keep(self, state: RunState) -> None:
        """Count a run that goes on after a pause, whatever the limits say."""
        if state.tenant is None or not state.was_paused or state.status != "running":
            return
        try:
            token = _token(state.tenant, state.run)
            self._slots.keep(RUNS, token, hold_ms=HOLD_MS, tenant=state.tenant)
        except MulliganError as error:
            _log.warning("turn_not_kept", error=type(error).__name__)

    def over(self, run: str, tenant: str) -> None:
        """A run has ended or waits for a person: others may begin."""
        try:
            called = self._slots.give_back(RUNS, _token(tenant, run), tenant=tenant)
            left = self._slots.leave(RUNS, run_task(run), tenant=tenant)
            self.tell((*called, *left))
        except MulliganError as error:  # it is found by who looks at what nobody looked at
            _log.warning("turn_not_given_back", error=type(error).__name__)

    def tell(self, called: tuple[Called, ...]) -> None:
        """Tell those whose turn it is; in the place of one that is gone comes the next."""
        to_tell = list(called)
        while to_tell:
            one = to_tell.pop(0)
            if not self._call(one):
                lane = Lane(name=one.lane) if one.lane is not None else RUNS
                to_tell += self._slots.leave(lane, one.waiter, tenant=one.tenant)

    def limit(self, tenant: str, limits: TenantLimits | None) -> None:
        """
        Set a tenant's limits (`DEFAULT` and `TOGETHER` stand for all), and let those go on who may.

        Raises:
            InvalidInput: it can't be a tenant, or all together can't be limited so.
        """
        if tenant not in (DEFAULT, TOGETHER):
            check_tenant(tenant)
        if tenant == TOGETHER and limits is not None and limits != TenantLimits(runs=limits.runs):
            raise InvalidInput("for all tenants together only `runs` can be limited")
        empty = limits is None or limits == TenantLimits()
        self.tell(self._slots.limit(tenant, None if empty else packed(limits or TenantLimits())))

    def own_limits(self, tenant: str) -> TenantLimits:
        """A tenant's limits of its own, or those that `DEFAULT` and `TOGETHER` stand for."""
        kept = self._slots.limits().get(tenant)
        return unpacked(kept) if kept is not None else TenantLimits()

    def tenants(self) -> TenantList:
        """The tenants, their limits, and what they take of them."""
        own = {tenant: unpacked(text) for tenant, text in self._slots.limits().items()}
        loads = self._slots.loads()
        names = {name.split("/")[1] for name in loads if name.startswith("tenant/")}
        default = own.get(DEFAULT, TenantLimits()).over(BUILT_IN)
        return TenantList(
            default=default,
            together=own.get(TOGETHER, TenantLimits()),
            tenants=tuple(
                _view(tenant, own.get(tenant, TenantLimits()), default, loads)
                for tenant in sorted(names | (own.keys() - {DEFAULT, TOGETHER}))
            ),
        )

    def close(self) -> None:
        """Let go of connections."""
        self._slots.close()

    def look(self, goes_on: Callable[[str], bool]) -> None:
        """Give back the places of runs that do not go on, among those that nobody looked at."""
        for token in self._slots.unrenewed(HOLD_MS):
            tenant, _, run = token.partition("/")
            if not goes_on(run):
                self.over(run, tenant)


def _view(
    tenant: str, own: TenantLimits, default: TenantLimits, loads: Mapping[str, Load]
) -> TenantView:
    runs, requests = (
        loads.get(gate_of(tenant, lane).name, Load(held=0, waiting=0, paused_ms=0))
        for lane in (RUNS, REQUESTS)
    )
    return TenantView(
        tenant=tenant,
        own=own,
        limits=own.over(default),
        runs=runs.held,
        runs_waiting=runs.waiting,
        requests=requests.held,
        requests_waiting=requests.waiting,
    )


def _token(tenant: str, run: str) -> str:
    """What a run holds its place under: both names, so that whoever looks knows them."""
    return f"{tenant}/{run}"
