"""
Moments on the command line.
"""

from __future__ import annotations

from typing import Any

import click

from mulligan.moments import parse_moment


class Moment(click.ParamType[int]):
    """What `parse_moment` reads, as milliseconds since 1970."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_moment(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
