"""
The port to the slots: who may ask a model now, where its provider limits how many may; and which
runs of tenants may begin.

A **lane** is what has limits of its own: a provider, or one of its models, at an address. A slot of
a lane is held by whoever asks, under a token, for a while that is renewed; a holder that dies is
out when it ends. Whoever finds none waits in the lane, by the moment it began to: the first ones
are called as slots come free, and come by themselves some time later if no call reaches them.

Where slots are taken for **tenants** (`tenants.py`), those who wait in a lane take turns: each
tenant's first before any one's second, so that nobody waits for more than one slot of each other
tenant and those before it of its own. A tenant is held to its limits as well, in all lanes
together; while it can't go on the others do.

What each call promises stands here; `../tests/contract/test_slots.py` holds every implementation to
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

CALL_MS = 5_000
"""How long a slot is kept for a waiter that was called; it then loses its place to the next."""

FAR_MS = 30_000
"""When a waiter that nobody called comes by itself: its call was lost, or the lane stands still."""

FAR_STEP_MS = 20
"""So much later for each waiter ahead: together they ask at most 50 times a second."""

HEADS = 3
"""Waiters that look when the next hold ends: for holders that died, whom nobody gives back for."""

SOONEST_MS = 50
"""A waiter that looks does not look again sooner."""

LONGEST_PAUSE_MS = 300_000
"""A lane that its provider wants quiet for longer is tried again then, by one after the other."""

WINDOW_MS = 60_000


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """
    A lane and its limits, None for those that it has not: slots held at once, and slots taken in
    any minute.
    """

    name: str
    concurrent: int | None = None
    per_minute: int | None = None

    @property
    def burst(self) -> int:
        """How many of a minute's slots may be taken at once: a tenth, the others evenly after."""
        return max(1, (self.per_minute or 0) // 10)

    @property
    def spacing_ms(self) -> float:
        """
        The time after which one more may be taken. With it no minute, the one that begins with a
        burst included, sees more than `per_minute`; 0 without a limit.
        """
        if self.per_minute is None:
            return 0.0
        return WINDOW_MS / (self.per_minute - self.burst + 1)


class Called(msgspec.Struct, frozen=True):
    """
    A waiter whose turn it is, `delay_ms` from now: to be told by whoever made the call. `lane` is
    where it waits, if that is not the call's own, `tenant` for whom.
    """

    waiter: str
    delay_ms: int
    lane: str | None = None
    tenant: str | None = None


class Taken(msgspec.Struct, frozen=True):
    """A slot is held; and who else is called."""

    called: tuple[Called, ...] = ()


class Queued(msgspec.Struct, frozen=True):
    """
    No slot now: one has a place in the lane, with so many `ahead`, is called or should look again
    after `wait_ms`; and who is called. `by_tenant`: it is the tenant's limit that is reached, and
    those ahead are its own.
    """

    wait_ms: int
    ahead: int
    called: tuple[Called, ...] = ()
    by_tenant: bool = False


class Refused(msgspec.Struct, frozen=True):
    """No slot, and no place either: so many of the tenant wait, and no more may."""

    waiting: int


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How a lane stands: slots held, waiters, and for how long nobody may take one."""

    held: int
    waiting: int
    paused_ms: int


class Slots(Protocol):
    """
    Safe for use by threads; time is the server's. Any call may raise `StoreUnavailable`, and can
    then be made again with the same arguments.
    """

    def take(
        self,
        lane: Lane,
        waiter: str,
        token: str,
        *,
        hold_ms: int,
        since_ms: int | None = None,
        tenant: str | None = None,
        tokens: int = 0,
        bounded: bool = False,
    ) -> Taken | Queued | Refused:
        """
        Take a slot for `hold_ms`, or a place among those who wait since `since_ms` (None: now, or
        since an earlier call of this waiter). A token that holds one already goes on holding it.
        For a `tenant` it counts against its limits, with the `tokens` that the request is thought
        to take; `bounded`: refused where more of the tenant's would wait than may.
        """
        ...

    def give_back(
        self,
        lane: Lane,
        token: str,
        *,
        pause_ms: int = 0,
        tenant: str | None = None,
        tokens: int = 0,
    ) -> tuple[Called, ...]:
        """
        Hold it no longer; nobody may take a slot for `pause_ms` from now, `LONGEST_PAUSE_MS` at
        most. Without effect on slots that the token does not hold. `tokens` is by how much the
        request took more than was thought (below 0: less). Who is called.
        """
        ...

    def leave(self, lane: Lane, waiter: str, *, tenant: str | None = None) -> tuple[Called, ...]:
        """Wait no longer. Who is called."""
        ...

    def keep(self, lane: Lane, token: str, *, hold_ms: int, tenant: str) -> None:
        """Hold a slot, whatever the limits say: of a run that goes on after a pause."""
        ...

    def unrenewed(self, hold_ms: int) -> tuple[str, ...]:
        """
        Tokens of begun runs whose time is over, a hundred at most: whoever gets them has
        `hold_ms` to see whether they still go on. Those slots alone never run out by themselves.
        """
        ...

    def limits(self) -> dict[str, str]:
        """The limits that are set, packed, by tenant."""
        ...

    def limit(self, tenant: str, packed: str | None) -> tuple[Called, ...]:
        """Set a tenant's limits; None: it has none of its own. Who is called now."""
        ...

    def renew(self, held: Sequence[tuple[Lane, str]], hold_ms: int) -> None:
        """
        Hold what these tokens still hold for `hold_ms` from now: one call, however many they are.
        """
        ...

    def loads(self) -> dict[str, Load]:
        """The lanes that somebody took or looked for a slot of within a day, by name."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
