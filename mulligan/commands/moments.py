"""
Moments on the command line: a time, or how long ago.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Moment(click.ParamType[int]):
    """
    `30m`, `2h`, `7d` before now, or a date or time of ISO 8601 (UTC if it does not say), as
    milliseconds since 1970.
    """

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        ago = re.fullmatch(r"(\d{1,9})([smhd])", value)
        try:
            if ago is not None:
                moment = datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            else:
                moment = datetime.fromisoformat(value)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time; write 30m, 2h, 7d or 2026-11-30T12:00", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1_000)
