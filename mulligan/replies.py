"""
What is answered to who asked for something: by commands with `--json`, and over HTTP.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class Enqueued(msgspec.Struct, kw_only=True):
    """
    A run that was asked for; `kept` is there, in words, where it was asked for before and goes on
    with another plan than what was asked for now.
    """

    kind: Literal["enqueued"] = "enqueued"
    run: str
    kept: str | UnsetType = UNSET


class Forked(msgspec.Struct, kw_only=True):
    """A run that was begun as a copy of another's events, up to a version."""

    kind: Literal["forked"] = "forked"
    run: str
    parent: str
    at_version: int


class Answered(msgspec.Struct, kw_only=True):
    """An answer to the question `request`; `changed` is false where it was given before."""

    kind: Literal["answered"] = "answered"
    run: str
    request: str
    changed: bool


class Decided(msgspec.Struct, kw_only=True):
    """A decision about a tool's call; `changed` is false where it was taken before."""

    kind: Literal["decided"] = "decided"
    run: str
    call: str
    decision: Literal["approved", "denied"]
    changed: bool


class Signalled(msgspec.Struct, kw_only=True):
    """A signal to a run; `changed` is false where it had been received before."""

    kind: Literal["signalled"] = "signalled"
    run: str
    name: str
    key: str
    changed: bool


ScheduleAction = Literal["create", "pause", "resume", "remove"]


class ScheduleChanged(msgspec.Struct, kw_only=True):
    """What was asked of a schedule; `changed` is false where it had been so before."""

    kind: Literal["schedule_changed"] = "schedule_changed"
    schedule: str
    action: ScheduleAction
    changed: bool


class Triggered(msgspec.Struct, kw_only=True):
    """A run that a schedule is to ask for now; it is there once a worker has asked for it."""

    kind: Literal["triggered"] = "triggered"
    schedule: str
    run: str


class Redriven(msgspec.Struct, kw_only=True):
    """The runs in which something parked goes on."""

    kind: Literal["redriven"] = "redriven"
    runs: list[str]


class Done(msgspec.Struct, kw_only=True):
    """What a person asked of a run; `changed` is false where it had been so before."""

    kind: Literal["done"] = "done"
    run: str
    action: Literal["cancel", "resume", "redrive", "decide", "reconcile"]
    changed: bool
