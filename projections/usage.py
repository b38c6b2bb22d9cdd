"""
What a run's requests used, by model: reported figures summed, unreported ones counted as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from mulligan.events.envelope import Envelope
from mulligan.events.facts import (
    ModelAnswered,
    ModelFailed,
    ModelInterrupted,
    ModelRequested,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunForked,
    Usage,
)
from mulligan.events.ids import overseen
from mulligan.projections.row_changes import Event, by_tag, part_of


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    Requests to one model, and the sums of what the provider reported. `unknown` counts requests
    whose usage was not reported or never came; the sums leave those out (REC-21).
    """

    requests: int = 0
    unknown: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


class RunUsage(msgspec.Struct, kw_only=True, gc=False):
    """
    A run's usage by model, with the requests that are still open. The overseer's stands apart from
    that of the workflow's agents (OVR-8). What a fork was copied with is its parent's usage.
    """

    run: str
    version: int = 0
    last_event: str = ""
    models: dict[str, ModelUsage] = {}
    overseer: dict[str, ModelUsage] = {}
    open: dict[str, str] = {}
    unreadable: str | None = None
    """which event after `version` this code can't read, and why"""


class UsageTotals(msgspec.Struct, kw_only=True):
    """
    What the requests of all runs used, by model; the overseer's apart. Of the runs in `unreadable`
    only what is before an event that this version can't read.
    """

    kind: Literal["usage-totals"] = "usage-totals"
    runs: int
    models: dict[str, ModelUsage]
    overseer: dict[str, ModelUsage]
    unreadable: list[str] = []


class _Sent(msgspec.Struct):
    """Of `ModelRequested`."""

    request_id: str
    model: str


class _Answer(msgspec.Struct):
    """Of `ModelAnswered`, without what the model said."""

    request_id: str
    usage: Usage | None = None


def fold(run: str, events: Iterable[Envelope]) -> RunUsage:
    """The usage of `run` after `events`."""
    state = RunUsage(run=run)
    for event in events:
        evolve(state, event)
    return state


def evolve(state: RunUsage, event: Event) -> None:
    """Take `state` one event further, in place."""
    for change in CHANGES.get(event.type, ()):
        change(state, event)
    end_with(state, event)


def end_with(state: RunUsage, event: Event) -> None:
    """The last event that a usage holds."""
    state.version, state.last_event = event.version, event.id


def total(usages: Iterable[Mapping[str, ModelUsage]]) -> dict[str, ModelUsage]:
    """Usages together, by model in the order of their names."""
    models: dict[str, ModelUsage] = {}
    for usage in usages:
        for model, used in usage.items():
            models[model] = _sum(models.get(model, ModelUsage()), used)
    return dict(sorted(models.items()))


def totals(rows: Sequence[RunUsage]) -> UsageTotals:
    """The usage of many runs together."""
    return UsageTotals(
        runs=len(rows),
        models=total(row.models for row in rows),
        overseer=total(row.overseer for row in rows),
        unreadable=sorted(row.run for row in rows if row.unreadable is not None),
    )


def _sum(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    costs = [used.cost_usd for used in (one, other) if used.cost_usd is not None]
    return ModelUsage(
        requests=one.requests + other.requests,
        unknown=one.unknown + other.unknown,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        cost_usd=sum(costs) if costs else None,
    )


def _by(state: RunUsage, request_id: str) -> dict[str, ModelUsage]:
    """The usage of whoever makes a request."""
    by_overseer = overseen(request_id.rpartition("#")[0]) is not None
    return state.overseer if by_overseer else state.models


def _count(state: RunUsage, request_id: str, model: str) -> None:
    models = _by(state, request_id)
    before = models.get(model, ModelUsage())
    models[model] = msgspec.structs.replace(before, requests=before.requests + 1)
    state.open[request_id] = model


def _report(state: RunUsage, request_id: str, usage: Usage | None) -> None:
    model = state.open.pop(request_id, None)
    if model is None:
        return
    models = _by(state, request_id)
    before = models[model]
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        models[model] = msgspec.structs.replace(before, unknown=before.unknown + 1)
        return
    cost = before.cost_usd
    if usage.cost_usd is not None:
        cost = (cost or 0.0) + usage.cost_usd
    models[model] = msgspec.structs.replace(
        before,
        prompt_tokens=before.prompt_tokens + (usage.prompt_tokens or 0),
        completion_tokens=before.completion_tokens + (usage.completion_tokens or 0),
        cost_usd=cost,
    )


def _requested(state: RunUsage, event: Event) -> None:
    sent = part_of(event, _Sent)
    _count(state, sent.request_id, sent.model)


def _answered(state: RunUsage, event: Event) -> None:
    answer = part_of(event, _Answer)
    _report(state, answer.request_id, answer.usage)


def _lost(state: RunUsage, event: Event) -> None:
    fact = event.data
    assert isinstance(fact, ModelFailed | ModelInterrupted)
    _report(state, fact.request_id, None)


def _ended(state: RunUsage, event: Event) -> None:
    """Nobody will hear any more of what is open."""
    for request_id in list(state.open):
        _report(state, request_id, None)


def _forked(state: RunUsage, event: Event) -> None:
    """What was used up to here, the other run has used."""
    state.models, state.overseer, state.open = {}, {}, {}


CHANGES = by_tag(
    (_requested, (ModelRequested,)),
    (_answered, (ModelAnswered,)),
    (_lost, (ModelFailed, ModelInterrupted)),
    (_ended, (RunCompleted, RunFailed, RunCancelled)),
    (_forked, (RunForked,)),
)
"""What events change, by tag."""
