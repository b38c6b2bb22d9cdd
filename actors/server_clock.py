"""
Whether the servers' clocks have run evenly lately.

Leases end by the server's clock, and their holders keep to their own, which nobody can set. They
agree unless the server's clock is set forward: then a lease is over there while its holder may go
on for as long as it was renewed for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple


class _Stretch(NamedTuple):
    """Since when (monotonic seconds) a server's clock has been ahead of ours by so much."""

    since_s: float
    ahead_s: float


class ServerClocks:
    """
    Compares the clocks of the partitions' servers with this process's own; safe for use by threads.

    Args:
        lease_ms: how long leases are.
        tolerance_ms: what a clock may gain unnoticed; not above the margin of a lease.
        clock: monotonic seconds.
    """

    def __init__(
        self, lease_ms: int, tolerance_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease_s = lease_ms / 1_000
        self._tolerance_s = tolerance_ms / 1_000
        self._clock = clock
        self._lock = threading.Lock()
        self._stretches: dict[int, _Stretch] = {}

    def seen(self, partition: int, server_ms: int, sent_s: float) -> None:
        """A reply that has just come in, to what was sent at `sent_s`, told the server's time."""
        now_s = self._clock()
        ahead_s = server_ms / 1_000 - now_s
        most_s = server_ms / 1_000 - sent_s
        with self._lock:
            known = self._stretches.get(partition)
            # A reply that was long under way makes the clock look slow, never fast.
            if known is None or ahead_s > known.ahead_s + self._tolerance_s:
                self._stretches[partition] = _Stretch(now_s, ahead_s)
            elif most_s < known.ahead_s - self._tolerance_s:
                # Set back, which ends no lease early; but to set it right again will.
                self._stretches[partition] = _Stretch(known.since_s, ahead_s)

    def others_end_in_ms(self, partition: int) -> int:
        """
        How long whoever held a lease that is over on the server may still hold it by its own clock:
        0, if this process has seen the server's clock run evenly for the length of a lease.
        """
        with self._lock:
            known = self._stretches.get(partition)
        even_s = self._clock() - known.since_s if known is not None else 0.0
        return max(0, round((self._lease_s - even_s) * 1_000))
