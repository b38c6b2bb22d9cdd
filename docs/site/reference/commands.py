"""Every command with its `--help`, as click prints it."""

from __future__ import annotations

import click

from mulligan.cli import main

WIDTH = 88


def commands() -> str:
    """A section for each command."""
    top = click.Context(main, info_name="mulligan", terminal_width=WIDTH, max_content_width=WIDTH)
    names = main.list_commands(top)
    return "\n".join(_section(top, name) for name in names)


def _section(top: click.Context, name: str) -> str:
    command = main.get_command(top, name)
    assert command is not None, name
    context = click.Context(command, parent=top, info_name=name)
    return f"## mulligan {name}\n\n```text\n{command.get_help(context)}\n```\n"
