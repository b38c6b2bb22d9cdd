"""
The command line. Commands are imported when they are called: `mulligan status` must not pay for
litellm, nor `mulligan check-output` for Redis.
"""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from typing import Any

import click

from mulligan._version import __version__
from mulligan.errors import EnvironmentUnfit, MulliganError

_COMMANDS = {
    "answer": "tell an agent what it asks",
    "approve": "let a tool's call be run that waits for it",
    "archive": "move ended runs out of the log's server, into compressed files",
    "browser": "a real browser for agents: the bridge that owns Chromium",
    "cancel": "cancel a run",
    "chat": "a run as a conversation",
    "check-output": "judge a model's output, without a model or Redis",
    "decide": "decide on a draft that repair could not bring through its gates",
    "demo": "a run whose model misbehaves and whose worker is killed, shown live",
    "deny": "refuse a tool's call that waits for approval",
    "doctor": "check server, queue and workers, and say what to do",
    "down": "stop the embedded server",
    "enqueue": "ask for a run and print its id",
    "fork": "a new run from the first events of another",
    "gates": "judge a Markdown text, without a model or Redis",
    "mcp": "web_use and read for MCP clients, over stdio",
    "keys": "keys to what runs contain: make, list, rotate, destroy",
    "projector": "keep the rows that lists show",
    "list": "runs by status, workflow, tag and time",
    "rebuild": "fold the rows that lists show anew",
    "reconcile": "say what became of an effect whose outcome is unknown",
    "recovery": "the allowances of a run, and what is left of them",
    "redrive": "let what is parked go on",
    "repair": "repair an article that was made elsewhere",
    "repair-log": "the rounds of a run's repair loops",
    "resume": "let a paused run go on",
    "run": "work a run here and follow it to its end",
    "schedule": "have runs asked for by the clock",
    "scripted-model": "an OpenAI-compatible server that plays a script",
    "serve": "the HTTP API and the page",
    "signal": "tell a run of something that it waits for",
    "status": "one run, or the list of all",
    "tail": "events as JSON lines",
    "tenants": "limits of tenants, and what they take of them",
    "trace": "what happened in a run, step by step",
    "usage": "tokens and cost, as providers reported them",
    "verify": "fold runs twice and check their histories",
    "worker": "work runs until told to stop",
    "workspace": "the artifacts of a run as files",
}
"""Each is the object of its name in the module of its name in `mulligan/commands/`."""

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended: 128 + SIGINT, as shells have it."""


class _LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        # A module `list` could not say `list[str]` any more.
        name = "list_runs" if cmd_name == "list" else cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"mulligan.commands.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse bytes of a shell that are no text: they could neither be stored nor looked up."""
        for place, given in enumerate(args, start=1):
            if not given.isascii() and given != given.encode(errors="replace").decode():
                raise click.UsageError(f"argument {place} ({ascii(given)[:80]}) is not UTF-8 text")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MulliganError as error:
            click.echo(f"mulligan: {error}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("mulligan: interrupted", err=True)
            sys.exit(INTERRUPTED)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            click.echo(f"mulligan: {error.strerror}: make room and repeat the command", err=True)
            sys.exit(EnvironmentUnfit.exit_code)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mulligan")
def main() -> None:
    """LLM workflows that finish, or stop honestly."""


if __name__ == "__main__":
    main()
