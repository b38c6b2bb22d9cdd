"""`mulligan chat RUN`: a run as a conversation."""

from __future__ import annotations

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, legible, show_json
from mulligan.conversation import chat_of
from mulligan.projections.chat import Chat, ChatCall, ChatEntry


@click.command()
@click.argument("run")
@json_option
def chat(run: str, as_json: bool) -> None:
    """Show what was said in a run: prompts, answers, tool calls and their results, outputs."""
    with Client() as client:
        folded = chat_of(client, run)
    if as_json:
        show_json(folded)
    else:
        show(folded)


def show(folded: Chat) -> None:
    """Print a chat for people: who speaks, then what, indented."""
    reason = f" ({folded.reason})" if folded.reason else ""
    click.echo(f"{folded.run}  {folded.workflow}  {folded.status}{reason}")
    for entry in folded.entries:
        click.echo(f"\n{entry.at_ms / 1000:.3f}  {_speaker(entry)}  {entry.kind}")
        said = entry.text if entry.call is None else _call(entry.call)
        for line in legible(said).split("\n"):
            click.echo(f"    {line}".rstrip())


def _speaker(entry: ChatEntry) -> str:
    return f"{entry.node} → {entry.agent}" if entry.agent else entry.node


def _call(call: ChatCall) -> str:
    """What was called with what, and what came of it."""
    result = f"\n→ {call.result}" if call.result is not None else ""
    outcome = f" [{call.status}]" if call.status != "succeeded" else ""
    return f"{call.name}({call.arguments}){outcome}{result}"
