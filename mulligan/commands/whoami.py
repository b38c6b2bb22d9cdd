"""`--by`: who decides, as the log keeps it."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def by_option(command: F) -> F:
    """`--by`: the name under which the log keeps a decision; by default the login name."""
    return click.option(
        "--by", default=_login, help="Who says so; kept in the log. By default your login name."
    )(command)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container whose user has no name
        return "operator"
