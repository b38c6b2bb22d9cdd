"""
Moments of a cron expression: five fields, by the clocks of a zone, as Debian's cron goes by them.

Where clocks are set forward, what was to happen in the hour that is left out happens right after
it; where they are set back, once, at the first of both. An expression whose minute or hour begins
with `*` goes by the time that passes instead: `*/15 * * * *` is due in every quarter of an hour,
also in the one that clocks show twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from mulligan.errors import InvalidInput

LONGEST_CRON = 200
FIELDS = 5
EXAMPLE = "'0 6 * * 1' (minute, hour, day of month, month, day of week)"
HOUR_MS = 3_600_000


def check_cron(cron: object, timezone: object) -> None:
    """
    Refuse what can never be due.

    Raises:
        InvalidInput: no cron expression of five fields, no zone, or no moment in fifty years.
    """
    if not isinstance(cron, str) or len(cron) > LONGEST_CRON or len(cron.split()) != FIELDS:
        raise InvalidInput(f"cron {ascii(cron)[:80]}: use five fields, such as {EXAMPLE}")
    if not isinstance(timezone, str) or _zone(timezone) is None:
        raise InvalidInput(
            f"timezone {ascii(timezone)[:80]} is not known here: use a name of the IANA database, "
            "such as Europe/Berlin, or UTC"
        )
    try:
        first = next(due_after(cron, timezone, 0), None)
    except (CronSimError, AssertionError) as error:
        raise InvalidInput(f"cron {cron!r}: {error}; use for example {EXAMPLE}") from None
    if first is None:
        raise InvalidInput(f"cron {cron!r}: there is no such day")


def due_after(cron: str, timezone: str, after_ms: int) -> Iterator[int]:
    """The moments of an expression after `after_ms`, in milliseconds since 1970, each once."""
    zone = ZoneInfo(timezone)
    last_ms = after_ms
    for moment in CronSim(cron, datetime.fromtimestamp(after_ms // 1_000, zone)):
        due_ms = int(moment.timestamp()) * 1_000
        if due_ms > last_ms:
            last_ms = due_ms
            yield due_ms


def due_between(cron: str, timezone: str, after_ms: int, until_ms: int) -> Iterator[int]:
    """Those until `until_ms`, including it."""
    return takewhile(lambda due_ms: due_ms <= until_ms, due_after(cron, timezone, after_ms))


def latest_due(cron: str, timezone: str, after_ms: int, until_ms: int, most: int) -> list[int]:
    """
    The latest `most` of those, in order. Looked for in ever longer spans before `until_ms`: a year
    of minutes, walked through from its beginning, would take seconds.
    """
    span_ms = HOUR_MS
    while True:
        begin_ms = max(after_ms, until_ms - span_ms)
        found = deque(due_between(cron, timezone, begin_ms, until_ms), maxlen=most)
        if len(found) == most or begin_ms == after_ms:
            return list(found)
        span_ms *= 8


def stamp(due_ms: int) -> str:
    """A moment as it stands in the ids of runs: `20261207T060000Z`."""
    return datetime.fromtimestamp(due_ms // 1_000, UTC).strftime("%Y%m%dT%H%M%SZ")


def _zone(timezone: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        return None
