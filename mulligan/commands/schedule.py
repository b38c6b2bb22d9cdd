"""`mulligan schedule …`: runs that are asked for by the clock."""

from __future__ import annotations

from datetime import datetime
from typing import get_args
from zoneinfo import ZoneInfo

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.given_input import read_input
from mulligan.commands.printing import clock, json_option, legible, show_json, table
from mulligan.commands.tenant_option import tenant_option
from mulligan.commands.whoami import by_option
from mulligan.events.facts import CatchUpPolicy, OverlapPolicy, Priority
from mulligan.replies import ScheduleAction, ScheduleChanged, Triggered
from mulligan.schedule_views import Firing, ScheduleView


@click.group()
def schedule() -> None:
    """Have runs asked for by the clock (docs/schedules.md)."""


@schedule.command()
@click.argument("name")
@click.argument("workflow")
@click.option("--cron", required=True, help="Five fields, such as '0 6 * * 1'.")
@click.option("--timezone", default="UTC", show_default=True, help="Such as Europe/Berlin.")
@click.option("--input", "given", metavar="FILE|JSON", help="The input of its runs.")
@click.option("--model", help="Instead of the model in the workflow's settings.")
@click.option("--tag", "tags", multiple=True, help="Of its runs; may be given again.")
@click.option(
    "--priority",
    type=click.Choice(["-1", "0", "1"]),
    default="0",
    show_default=True,
    help="Of its runs: -1 goes first where much waits, 1 last.",
)
@tenant_option
@click.option(
    "--overlap",
    type=click.Choice(get_args(OverlapPolicy)),
    default="skip",
    show_default=True,
    help="While a run of an earlier firing goes on.",
)
@click.option(
    "--catch-up",
    type=click.Choice(get_args(CatchUpPolicy)),
    default="last",
    show_default=True,
    help="Which moments that passed without a worker are made up for.",
)
@click.option("--replace", is_flag=True, help="Put these terms in the place of others.")
@by_option
@json_option
def create(
    name: str,
    workflow: str,
    cron: str,
    timezone: str,
    given: str | None,
    model: str | None,
    tags: tuple[str, ...],
    priority: str,
    tenant: str | None,
    overlap: OverlapPolicy,
    catch_up: CatchUpPolicy,
    replace: bool,
    by: str,
    as_json: bool,
) -> None:
    """
    Create the schedule NAME: runs of WORKFLOW at the moments of a cron expression.

    A workflow file is kept as it is now; `module:attribute` and shipped workflows are loaded anew
    by the worker that fires.
    """
    value = read_input(given)
    with Client() as client:
        changed = client.schedules.create(
            name,
            workflow,
            value,
            cron=cron,
            timezone=timezone,
            model=model,
            tags=tags,
            priority=msgspec.convert(int(priority), Priority),
            tenant=tenant,
            overlap=overlap,
            catch_up=catch_up,
            replace=replace,
            by=by,
        )
        if as_json:
            _changed(name, "create", changed, as_json)
        else:
            _terms(client.schedules.show(name))


@schedule.command("list")
@json_option
def list_schedules(as_json: bool) -> None:
    """List schedules, by name."""
    with Client() as client:
        found = client.schedules.list()
    if as_json:
        show_json(found)
        return
    if not found.schedules:
        click.echo("no schedules; `mulligan schedule create` makes one", err=True)
        return
    cells = [
        (
            row.name,
            row.workflow,
            row.cron,
            row.timezone,
            row.status,
            _local(row.next_ms, row.timezone),
            _came_to(row.last) if row.last is not None else "-",
        )
        for row in found.schedules
    ]
    table(("schedule", "workflow", "cron", "timezone", "status", "next", "last"), cells)


@schedule.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """A schedule: its terms, when it is due next, and what its latest firings came to."""
    with Client() as client:
        shown = client.schedules.show(name)
    if as_json:
        show_json(shown)
        return
    _terms(shown)
    if shown.firings:
        cells = [(_moments(one, shown.timezone), _came_to(one)) for one in shown.firings]
        click.echo()
        table(("due", "came to"), cells)


@schedule.command()
@click.argument("name")
@click.option("--reason", default="", help="Why; `show` tells it.")
@by_option
@json_option
def pause(name: str, reason: str, by: str, as_json: bool) -> None:
    """Let NAME fire no more until it is resumed."""
    with Client() as client:
        changed = client.schedules.pause(name, reason, by=by)
    _changed(name, "pause", changed, as_json)


@schedule.command()
@click.argument("name")
@by_option
@json_option
def resume(name: str, by: str, as_json: bool) -> None:
    """Let NAME fire again; what would have been due meanwhile is not made up for."""
    with Client() as client:
        changed = client.schedules.resume(name, by=by)
    _changed(name, "resume", changed, as_json)


@schedule.command()
@click.argument("name")
@by_option
@json_option
def remove(name: str, by: str, as_json: bool) -> None:
    """End NAME; the runs that it asked for stay as they are."""
    with Client() as client:
        changed = client.schedules.remove(name, by=by)
    _changed(name, "remove", changed, as_json)


@schedule.command("run-now")
@click.argument("name")
@click.option("--key", help="Asked again with the same key, it is the same run.")
@by_option
@json_option
def run_now(name: str, key: str | None, by: str, as_json: bool) -> None:
    """Have NAME ask for a run now, whatever else goes on, and print the run's id."""
    with Client() as client:
        run = client.schedules.run_now(name, key=key, by=by)
    if as_json:
        show_json(Triggered(schedule=name, run=run))
    else:
        click.echo(run)


_SAID: dict[ScheduleAction, tuple[str, str]] = {
    "create": ("created", "is there by these terms"),
    "pause": ("paused", "was paused before"),
    "resume": ("resumed", "was not paused"),
    "remove": ("removed", "was removed before"),
}


def _changed(name: str, action: ScheduleAction, changed: bool, as_json: bool) -> None:
    if as_json:
        show_json(ScheduleChanged(schedule=name, action=action, changed=changed))
    else:
        click.echo(f"{name}: {_SAID[action][0 if changed else 1]}", err=True)


def _terms(shown: ScheduleView) -> None:
    status = shown.status + (f" ({legible(shown.detail)})" if shown.detail else "")
    lines = {
        "schedule": shown.name,
        "status": status,
        "workflow": shown.source or f"{shown.workflow} (kept as it was)",
        "cron": f"{shown.cron} ({shown.timezone})",
        "overlap": shown.overlap,
        "catch-up": shown.catch_up,
        "next": _local(shown.next_ms[0], shown.timezone) if shown.next_ms else "-",
        **{" " * at: _local(ms, shown.timezone) for at, ms in enumerate(shown.next_ms[1:], 1)},
    }
    for name, told in lines.items():
        click.echo(f"{name:<9} {told}")


def _moments(firing: Firing, timezone: str) -> str:
    until = _local(firing.due_ms, timezone)
    return f"{_local(firing.from_ms, timezone)} … {until}" if firing.from_ms is not None else until


def _came_to(firing: Firing) -> str:
    if firing.outcome == "requested":
        told = f"{firing.run} {firing.status or ''}".rstrip()
    elif firing.outcome == "open":
        told = f"{firing.run} is to be asked for"
    else:
        many = f" {firing.count} times" if firing.count > 1 else ""
        told = f"skipped{many}: {firing.reason}"
        told += f": {legible(firing.detail)}" if firing.detail else ""
    return told + (f" (by {legible(firing.by)})" if firing.by else "")


def _local(time_ms: int | None, timezone: str) -> str:
    """A moment by the clocks of a zone; by UTC, where the zone is not known here."""
    if time_ms is None:
        return "-"
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        return f"{clock(time_ms)} UTC"
    return datetime.fromtimestamp(time_ms / 1_000, zone).strftime("%a %Y-%m-%d %H:%M %Z")
