"""`mulligan tenants`: the limits of tenants, and what they take of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json, table
from mulligan.errors import InvalidInput
from mulligan.events.tenants import (
    DEFAULT,
    MOST,
    RESOURCES,
    TOGETHER,
    Limit,
    TenantLimits,
    TenantList,
    TenantView,
    check_tenant,
)

HELP = {
    "runs": "runs at once",
    "requests": "requests to models at once",
    "per_minute": "requests to models in any minute",
    "tokens_per_minute": "tokens in any minute",
    "queued": "runs that may wait to begin; more are refused",
}


class _Limit(click.ParamType[Any]):
    name = "N|none|default"

    def convert(self, value: Any, param: Any, ctx: Any) -> Limit:
        if value in ("none", "default"):
            return "none" if value == "none" else None
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            number = int(value)
            if 1 <= number <= MOST:
                return number
        self.fail(f"{value!r}: use a whole number from 1 to {MOST}, none or default", param, ctx)


def _limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(RESOURCES):
        option = click.option(
            f"--{name.replace('_', '-')}",
            name,
            type=_Limit(),
            help=f"At most so many {HELP[name]}.",
        )
        command = option(command)
    return command


@click.group()
def tenants() -> None:
    """Limits of tenants: whom runs are for, and what each may take at once."""


@tenants.command("list")
@json_option
def list_tenants(as_json: bool) -> None:
    """List tenants with their limits and what they take."""
    with Client() as client:
        found = client.tenants()
    if as_json:
        show_json(found)
        return
    head = ("tenant", *(name.replace("_", " ") for name in RESOURCES))
    rows = [(one.tenant, *_cells(one)) for one in found.tenants]
    table(head, [*rows, ("(default)", *_limits(found.default))])
    if found.together.runs is not None:
        click.echo(f"all together: at most {found.together.runs} runs at once")


@tenants.command("show")
@click.argument("tenant")
@json_option
def show_tenant(tenant: str, as_json: bool) -> None:
    """Show one tenant."""
    check_tenant(tenant)
    with Client() as client:
        found = tenant_of(client.tenants(), tenant)
    if as_json:
        show_json(found)
        return
    told = {
        "runs": f", {found.runs} now, {found.runs_waiting} wait",
        "requests": f", {found.requests} now, {found.requests_waiting} wait",
    }
    for name in RESOURCES:
        most = getattr(found.limits, name) or "none"
        whose = "" if getattr(found.own, name) is not None else " (default)"
        click.echo(f"{HELP[name]}: {most}{whose}{told.get(name, '')}")


@tenants.command("set")
@click.argument("tenant", required=False)
@click.option("--default", "of_default", is_flag=True, help="Of tenants without their own.")
@click.option("--together", is_flag=True, help="Of all tenants together; --runs only.")
@_limit_options
@json_option
def set_limits(
    tenant: str | None, of_default: bool, together: bool, as_json: bool, **given: Limit
) -> None:
    """
    Set limits of TENANT; those that are not named stay. `none` lifts one, `default` leaves it to
    the default's. They hold at once, for all workers.
    """
    if sum((tenant is not None, of_default, together)) != 1:
        raise InvalidInput("name a TENANT, or use --default or --together")
    if tenant is not None:
        check_tenant(tenant)
    name = DEFAULT if of_default else TOGETHER if together else tenant or ""
    context = click.get_current_context()
    changes = {
        resource: limit
        for resource, limit in given.items()
        if context.get_parameter_source(resource) is click.core.ParameterSource.COMMANDLINE
    }
    if not changes:
        raise InvalidInput("name a limit to set, such as --runs 10; `mulligan tenants set --help`")
    with Client() as client:
        own = client.own_limits(name)
        client.limit_tenant(name, replace(own, **changes))
        found = client.tenants()
    if as_json:
        show_json(found)
    else:
        whose = {DEFAULT: "tenants without their own", TOGETHER: "all tenants together"}
        told = ", ".join(f"{HELP[one]}: {limit or 'default'}" for one, limit in changes.items())
        click.echo(f"{whose.get(name, name)}: {told}")


def tenant_of(found: TenantList, tenant: str) -> TenantView:
    """One of the tenants, also if nothing was ever heard of it."""
    known = [one for one in found.tenants if one.tenant == tenant]
    if known:
        return known[0]
    return TenantView(
        tenant=tenant,
        own=TenantLimits(),
        limits=found.default,
        runs=0,
        runs_waiting=0,
        requests=0,
        requests_waiting=0,
    )


def _cells(one: TenantView) -> list[str]:
    runs, requests, *rest = _limits(one.limits)
    waits = [f" (+{n} wait)" if n else "" for n in (one.runs_waiting, one.requests_waiting)]
    return [f"{one.runs} of {runs}{waits[0]}", f"{one.requests} of {requests}{waits[1]}", *rest]


def _limits(limits: TenantLimits) -> list[str]:
    return [str(limit or "none") for limit in msgspec.structs.astuple(limits)]
