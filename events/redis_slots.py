"""
The slots on Redis or Valkey, shared by all processes that use the server: `lua/slots.lua`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from mulligan.events.keys import SlotKeys, lanes_key, tenants_key
from mulligan.events.redis_connection import (
    Server,
    answers,
    connected,
    disconnect_idle,
    place_of,
)
from mulligan.events.redis_scripts import Scripts
from mulligan.events.slots import Called, Lane, Load, Queued, Refused, Taken
from mulligan.events.tenants import RUNS

_REFUSED = 2


class RedisSlots:
    """
    The `Slots` on a server. Nothing is asked of it before the first call.

    Args:
        server: a URL as for the log, or a client, which stays open after `close`.
        script_heads: off only for imitations that can't read the first line of a script.

    Raises:
        StoreUnfit: the URL can't be used.
    """

    def __init__(self, server: str | Server, *, script_heads: bool = True) -> None:
        self._owns_client = isinstance(server, str)
        self._client = connected(server) if isinstance(server, str) else server
        self._place = place_of(self._client)
        self._scripts = Scripts(self._client, heads=script_heads)

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
        """See `Slots.take`."""
        asked = (waiter, token, hold_ms, since_ms or 0, tokens, int(bounded))
        taken, wait_ms, ahead, by_tenant, *called = self._call("take", lane, tenant, *asked)
        if taken == _REFUSED:
            return Refused(ahead)
        if taken:
            return Taken(_called(called))
        return Queued(wait_ms, ahead, _called(called), by_tenant=bool(by_tenant))

    def give_back(
        self,
        lane: Lane,
        token: str,
        *,
        pause_ms: int = 0,
        tenant: str | None = None,
        tokens: int = 0,
    ) -> tuple[Called, ...]:
        """See `Slots.give_back`."""
        _, _, _, _, *called = self._call("give", lane, tenant, token, pause_ms, tokens)
        return _called(called)

    def leave(self, lane: Lane, waiter: str, *, tenant: str | None = None) -> tuple[Called, ...]:
        """See `Slots.leave`."""
        _, _, _, _, *called = self._call("leave", lane, tenant, waiter)
        return _called(called)

    def keep(self, lane: Lane, token: str, *, hold_ms: int, tenant: str) -> None:
        """See `Slots.keep`."""
        self._call("keep", lane, tenant, token, hold_ms)

    def unrenewed(self, hold_ms: int) -> tuple[str, ...]:
        """See `Slots.unrenewed`."""
        return tuple(token.decode() for token in self._call("unrenewed", RUNS, None, hold_ms))

    def renew(self, held: Sequence[tuple[Lane, str]], hold_ms: int) -> None:
        """See `Slots.renew`."""
        numbers = {name: n for n, name in enumerate(dict.fromkeys(lane.name for lane, _ in held))}
        tokens = [part for lane, token in held for part in (numbers[lane.name] + 1, token)]
        with answers(self._place):
            self._scripts.call(
                "renew_slots", [SlotKeys(name).held for name in numbers], [hold_ms, *tokens]
            )

    def loads(self) -> dict[str, Load]:
        """See `Slots.loads`."""
        with answers(self._place):
            lanes = cast("list[bytes]", self._client.zrange(lanes_key(), 0, -1))
        return {name: self._load(name) for name in (lane.decode() for lane in lanes)}

    def _load(self, name: str) -> Load:
        held, waiting, paused_ms = self._call("look", Lane(name=name), None)
        return Load(held=held, waiting=waiting, paused_ms=paused_ms)

    def limits(self) -> dict[str, str]:
        """See `Slots.limits`."""
        with answers(self._place):
            kept = cast("dict[bytes, bytes]", self._client.hgetall(tenants_key()))
        return {tenant.decode(): packed.decode() for tenant, packed in kept.items()}

    def limit(self, tenant: str, packed: str | None) -> tuple[Called, ...]:
        """See `Slots.limit`."""
        with answers(self._place):
            if packed is None:
                self._client.execute_command("HDEL", tenants_key(), tenant)
            else:
                self._client.execute_command("HSET", tenants_key(), tenant, packed)
            lanes = cast("list[bytes]", self._client.zrange(lanes_key(), 0, -1))
        names = [lane.decode() for lane in lanes]
        return tuple(
            replace(one, lane=one.lane or name)
            for name in names
            if not name.startswith("tenant/")
            for one in _called(self._call("call", Lane(name=name), None)[4:])
        )

    def close(self) -> None:
        """See `Slots.close`."""
        if self._owns_client:
            disconnect_idle(self._client)

    def _call(
        self, action: str, lane: Lane, tenant: str | None, *arguments: str | int
    ) -> list[Any]:
        limits = [lane.concurrent or 0, lane.burst, lane.spacing_ms]
        with answers(self._place):
            reply: list[Any] = self._scripts.call(
                "slots",
                [lanes_key(), tenants_key()],
                [action, lane.name, *limits, tenant or "", *arguments],
            )
        return reply


def _called(reply: list[Any]) -> tuple[Called, ...]:
    return tuple(
        Called(waiter.decode(), delay_ms, lane.decode() or None, tenant.decode() or None)
        for waiter, delay_ms, lane, tenant in zip(*(iter(reply),) * 4, strict=True)
    )
