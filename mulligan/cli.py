"""
The command line. Commands are imported when they are called: `mulligan status` must not pay for
litellm, nor `mulligan check-output` for Redis.
"""

from __future__ import annotations

from importlib import import_module

import click

from mulligan._version import __version__

_COMMANDS = {
    "check-output": "mulligan.commands.check_output:check_output",
}


class _LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(cls=_LazyGroup)
@click.version_option(__version__, prog_name="mulligan")
def main() -> None:
    """LLM workflows that finish, or stop honestly."""


if __name__ == "__main__":
    main()
