"""`mulligan recovery RUN`: the allowances of a run, what was sent, and what can be done now."""

from __future__ import annotations

from collections import Counter

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json, table
from mulligan.projections.recovery import InvocationRecovery, RecoveryView, fold
from mulligan.projections.usage import ModelUsage


@click.command()
@click.argument("run")
@json_option
def recovery(run: str, as_json: bool) -> None:
    """Show what was tried, what it cost, why a run stands still, and what can be done now."""
    with Client() as client:
        shown = fold(run, client.events(run))
    if as_json:
        show_json(shown)
    else:
        show(shown)


def show(shown: RecoveryView) -> None:
    """Print the view for people."""
    reason = f" ({shown.reason})" if shown.reason else ""
    click.echo(f"{shown.run}  {shown.status}{reason}")
    table(
        ("invocation", "status", "phase", "used", "spent on", "requests", "cause"),
        [_row(one) for one in shown.invocations],
    )
    for line in (*costs(shown.usage), *(f"now: {line}" for line in shown.advice)):
        click.echo(line)


def costs(usage: dict[str, ModelUsage]) -> list[str]:
    """What requests cost, a line a model: reported figures, and how many reported none."""
    return [f"{model or 'no model'}: {_cost(used)}" for model, used in usage.items()]


def _row(one: InvocationRecovery) -> tuple[str, ...]:
    cause = one.cause or one.failure
    return (
        one.invocation_id,
        one.status,
        one.phase,
        f"{one.used} of {one.limit}",
        _spent(one),
        str(one.requests),
        cause.told if cause else "",
    )


def _spent(one: InvocationRecovery) -> str:
    """What extra attempts were reserved for, and how many were given back."""
    reasons = Counter(entry.reason for entry in one.entries if entry.kind == "reserve")
    told = [f"{reason} x{count}" if count > 1 else str(reason) for reason, count in reasons.items()]
    back = sum(entry.count for entry in one.entries if entry.kind == "refund")
    return ", ".join(told) + (f" ({back} given back)" if back else "")


def _cost(used: ModelUsage) -> str:
    parts = [f"{used.requests} request{'s' if used.requests != 1 else ''} sent"]
    if used.requests > used.unknown:
        cost = "their cost unknown" if used.cost_usd is None else f"for ${used.cost_usd:.4f}"
        parts.append(f"{used.prompt_tokens} + {used.completion_tokens} tokens reported, {cost}")
    if used.unknown:
        parts.append(f"{used.unknown} of unknown usage and cost")
    return ", ".join(parts)
