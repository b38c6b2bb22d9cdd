"""
The slots on Redis or Valkey, shared by all processes that use the server: `lua/slots.lua`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from mulligan.events.keys import SlotKeys, lanes_key
from mulligan.events.redis_connection import (
    Server,
    answers,
    connected,
    disconnect_idle,
    place_of,
)
from mulligan.events.redis_scripts import Scripts
from mulligan.events.slots import Called, Lane, Load, Queued, Taken


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
        self, lane: Lane, waiter: str, token: str, *, hold_ms: int, since_ms: int | None = None
    ) -> Taken | Queued:
        """See `Slots.take`."""
        taken, wait_ms, ahead, *called = self._call(
            "take", lane, waiter, token, hold_ms, since_ms or 0
        )
        return Taken(_called(called)) if taken else Queued(wait_ms, ahead, _called(called))

    def give_back(self, lane: Lane, token: str, *, pause_ms: int = 0) -> tuple[Called, ...]:
        """See `Slots.give_back`."""
        _, _, _, *called = self._call("give", lane, token, pause_ms)
        return _called(called)

    def leave(self, lane: Lane, waiter: str) -> tuple[Called, ...]:
        """See `Slots.leave`."""
        _, _, _, *called = self._call("leave", lane, waiter)
        return _called(called)

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
        held, waiting, paused_ms = self._call("look", Lane(name=name))
        return Load(held=held, waiting=waiting, paused_ms=paused_ms)

    def close(self) -> None:
        """See `Slots.close`."""
        if self._owns_client:
            disconnect_idle(self._client)

    def _call(self, action: str, lane: Lane, *arguments: str | int) -> list[Any]:
        keys = SlotKeys(lane.name)
        limits = [lane.concurrent or 0, lane.burst, lane.spacing_ms]
        with answers(self._place):
            reply: list[Any] = self._scripts.call(
                "slots",
                [keys.held, keys.waiting, keys.called, keys.meter, lanes_key()],
                [action, lane.name, *limits, *arguments],
            )
        return reply


def _called(reply: list[Any]) -> tuple[Called, ...]:
    return tuple(
        Called(waiter.decode(), delay_ms)
        for waiter, delay_ms in zip(reply[::2], reply[1::2], strict=True)
    )
