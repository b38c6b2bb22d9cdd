"""
Tenants: who runs are for, and how much of the deployment each may take at once.

Limits are kept on the log's server, beside the slots that they limit, and hold for all workers from
the moment they are set. What a tenant has none of is the default's, and what that leaves open the
built-in one's. Who runs have no tenant is not limited by any of this.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from mulligan.errors import InvalidInput
from mulligan.events.slots import Lane

DEFAULT = "*"
"""Stands for every tenant without a limit of its own."""
TOGETHER = "+"
"""Stands for all tenants together; only `runs` is limited for them."""

MOST = 1_000_000
LONGEST_NAME = 64
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")

RUNS = Lane(name="runs")
"""Where runs of tenants wait to begin; held until a run ends or waits for a person."""
REQUESTS = Lane(name="tenants")
"""Where requests of tenants' runs wait whose provider has no limits."""

Limit = Annotated[int, Meta(ge=1, le=MOST)] | Literal["none"] | None
Resource = Literal["runs", "requests", "per_minute", "tokens_per_minute", "queued"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)


class TenantLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What a tenant may take: `runs` and model `requests` at once, requests and tokens in any minute,
    and how many runs may be `queued` before more are refused. "none": no limit; null: the default.
    """

    runs: Limit = None
    requests: Limit = None
    per_minute: Limit = None
    tokens_per_minute: Limit = None
    queued: Limit = None

    def number(self, resource: Resource) -> int | None:
        """The limit that counts, None for none, where nothing is left to a default any more."""
        limit: int | Literal["none"] | None = getattr(self, resource)
        return None if limit == "none" else limit

    def over(self, default: TenantLimits) -> TenantLimits:
        """These, and the default's where there is none."""
        merged = {name: getattr(self, name) or getattr(default, name) for name in RESOURCES}
        return TenantLimits(**merged)


BUILT_IN = TenantLimits(runs=100)
"""
Where nothing is set. Without any bound one tenant's thousand runs would stand in the queue before
another's first.
"""


class TenantView(msgspec.Struct, frozen=True, kw_only=True):
    """
    A tenant now: its own limits, those that count, and what it takes of them; `runs_waiting` have
    not begun, `requests_waiting` wait for a limit of its own or of its provider.
    """

    kind: Literal["tenant"] = "tenant"
    tenant: str
    own: TenantLimits
    limits: TenantLimits
    runs: int
    runs_waiting: int
    requests: int
    requests_waiting: int


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    """
    The tenants that have limits of their own or took something within a day, the limits of those
    that have none of their own, and those of all together.
    """

    kind: Literal["tenants"] = "tenants"
    default: TenantLimits
    together: TenantLimits
    tenants: tuple[TenantView, ...]


def is_tenant(name: object) -> bool:
    """Whether it can be a tenant's name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_tenant(name: object) -> None:
    """Raises InvalidInput for what can't be a tenant's name; the message says what can."""
    if not is_tenant(name):
        raise InvalidInput(
            f"{ascii(name)[:80]} can't be a tenant: use 1 to {LONGEST_NAME} of A-Z, a-z, 0-9, '.', "
            "'_' and '-', beginning with a letter or digit"
        )


def gate_of(tenant: str, lane: Lane) -> Lane:
    """Where it is counted what a tenant holds of a lane's kind, as `lua/slots.lua` names it."""
    kind = "runs" if lane.name == RUNS.name else "requests"
    return Lane(name=f"tenant/{tenant}/{kind}")


def packed(limits: TenantLimits) -> str:
    """The limits as `lua/slots.lua` reads them: a word each, `-` for none here, 0 for no limit."""
    words = (getattr(limits, name) for name in RESOURCES)
    return " ".join("-" if one is None else "0" if one == "none" else str(one) for one in words)


def unpacked(text: str) -> TenantLimits:
    """The limits of a packed text."""
    words = zip(RESOURCES, text.split(), strict=True)
    values = {
        name: None if word == "-" else "none" if word == "0" else int(word) for name, word in words
    }
    return TenantLimits(**values)  # type: ignore[arg-type]
