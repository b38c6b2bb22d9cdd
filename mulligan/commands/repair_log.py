"""`mulligan repair-log RUN`: what each round of repair did, and what came of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, legible, show_json, table
from mulligan.commands.repair_plot import draw, write_svg
from mulligan.projections.repair_log import Iteration, LogAction, RepairLog, RepairLogs, fold

EXCERPT = 60
"""Characters of an edit's text that a line shows."""


@click.command("repair-log")
@click.argument("run")
@click.option("--plot", is_flag=True, help="Draw the scores by round too.")
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), help="Write them to an SVG file."
)
@json_option
def repair_log(run: str, plot: bool, svg: Path | None, as_json: bool) -> None:
    """Show the rounds of a run's repair loops: level, trigger, score, cost, and what was edited."""
    with Client() as client:
        logs = fold(run, client.events(run), partial(client.value, run))
    if svg is not None:
        write_svg(logs, svg)
    if as_json:
        show_json(logs)
        return
    show(logs)
    if plot:
        draw(logs)


def show(logs: RepairLogs) -> None:
    """Print repair logs for people."""
    if not logs.loops:
        click.echo(f"{logs.run}: no node of this run has judged a draft")
    for log in logs.loops:
        _show_loop(log)


def _show_loop(log: RepairLog) -> None:
    click.echo(f"{log.run}  {log.node}  {_standing(log)}")
    first = log.assessments[0] if log.assessments else None
    if first is not None:
        passed = "passed" if first.passed else "failed"
        click.echo(f"before repair: {passed}, overall score {first.overall_score:g}")
    if log.iterations:
        header = ("round", "level", "for", "before", "after", "verdict", "cost", "took", "actions")
        table(header, [_row(one) for one in log.iterations])
    for over in log.passed_over:
        click.echo(f"level {over.level} passed over: {legible(over.because)}")
    for one in log.iterations:
        for action in one.actions:
            click.echo(f"  {one.iteration}: {_action(action)}")
    for review in log.reviews:
        stale = "" if review.counted else " (of another draft: does not count)"
        click.echo(f"review: {review.verdict}{stale}")
    if log.awaits_decision is not None:
        click.echo(
            f"decide: mulligan decide {log.run} accept|abort|take-over --node {log.node} "
            f"(best draft {log.best_draft[:8] if log.best_draft else '-'})"
        )


def _standing(log: RepairLog) -> str:
    halted = f" ({log.halt_reason})" if log.halt_reason else ""
    return f"{log.outcome or 'goes on'}{halted}"


def _row(one: Iteration) -> tuple[str, ...]:
    done = sum(action.skipped is None for action in one.actions)
    cost = "unknown" if one.cost_usd is None else f"${one.cost_usd:.4f}"
    return (
        str(one.iteration),
        str(one.level),
        one.metric,
        f"{one.score_before:g}",
        f"{one.score_after:g}",
        one.verdict,
        cost,
        f"{one.duration_seconds:.1f} s",
        f"{done} of {len(one.actions)}",
    )


def _action(action: LogAction) -> str:
    where = "".join(
        (
            f" line {action.line}" if action.line is not None else "",
            f" in {action.section!r}" if action.section else "",
        )
    )
    change = ""
    if action.before is not None or action.after is not None:
        change = f": {_short(action.before)} → {_short(action.after)}"
    skipped = f" (skipped: {action.skipped})" if action.skipped is not None else ""
    return legible(f"{action.type}{where}{change}{skipped}")


def _short(text: object) -> str:
    if text is None:
        return "nothing"
    shown = text if isinstance(text, str) else str(text)
    return repr(shown if len(shown) <= EXCERPT else f"{shown[: EXCERPT - 1]}…")
