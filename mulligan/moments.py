"""
Moments as people write them: a time, or how long ago.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_moment(text: str) -> int:
    """
    `30m`, `2h`, `7d` before now, or a date or time of ISO 8601 (UTC if it does not say), as
    milliseconds since 1970.

    Raises ValueError: it is none.
    """
    ago = re.fullmatch(r"(\d{1,9})([smhd])", text)
    try:
        if ago is not None:
            moment = datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1_000)
    except (ValueError, OverflowError):
        told = f"{ascii(text)[:80]} is no time; write 30m, 2h, 7d or 2026-11-30T12:00"
        raise ValueError(told) from None
