"""
How commands print: words for people, JSON for programs, nothing else on standard output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
import msgspec

from mulligan.projections.state import RunStatus

F = TypeVar("F", bound=Callable[..., Any])

EXIT_CODES: dict[RunStatus, int] = {"completed": 0, "failed": 1, "paused": 3, "cancelled": 4}
"""What `run` and `demo` end with for a run's status (contracts: Exit codes)."""


def json_option(command: F) -> F:
    """`--json`: print for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def show_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(msgspec.json.encode(value).decode())


def clock(time_ms: int | None) -> str:
    """A server time for people: UTC, to the second."""
    if time_ms is None:
        return "-"
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print columns, as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def legible(text: str) -> str:
    """
    A text that others wrote, for a terminal: line ends and tabs stay, every other control character
    is shown as an escape, so that no model or tool can move the cursor or hide what it said.
    """
    return "".join(
        one if one in "\n\t" or one.isprintable() else one.encode("unicode_escape").decode()
        for one in text
    )
