"""Metrics in Prometheus' format, from stored rows: nothing is scanned for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import structlog
from fastapi import APIRouter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from mulligan.actors.broker import queue_length
from mulligan.actors.hints import QUEUE
from mulligan.client import Client
from mulligan.projections.run_list import behind
from mulligan.projections.state import ENDED_RUN
from mulligan.projections.summary import RunSummary
from mulligan.projections.usage import ModelUsage, RunUsage, total
from mulligan.web.answers import PROBLEMS
from mulligan.web.run_index import RunIndex
from mulligan.web.surroundings import Around
from mulligan.web.tails import Tails

MEDIA_TYPE = "text/plain"
TYPE = f"{MEDIA_TYPE}; version=1.0.0; charset=utf-8"

MOST_TENANTS = 50
OTHERS = "(others)"
"""No name of a tenant."""

router = APIRouter(tags=["metrics"])
log = structlog.get_logger(__name__)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}, **PROBLEMS},
)
def metrics(around: Around) -> Response:
    """Runs, what went wrong in them, what they used, and what waits."""
    registry = CollectorRegistry()
    registry.register(_Collected(around.client, around.index, around.tails))
    return Response(generate_latest(registry), media_type=TYPE)


class _Collected(Collector):
    def __init__(self, client: Client, index: RunIndex, tails: Tails) -> None:
        self._client = client
        self._index = index
        self._tails = tails

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: to describe would be to collect."""
        return ()

    def collect(self) -> Iterator[Metric]:
        lag = behind(self._client.store)  # before the rows are brought up to date
        yield from _metrics(self._index.summaries(), self._index.usages(), lag, self._work())

    def _work(self) -> _Work:
        broker = self._client.hints.broker
        broker.declare_queue(QUEUE)
        workers = len(self._client.store.workers())
        return _Work(workers, queue_length(broker), self._tails.count)


class _Work(NamedTuple):
    workers: int
    waiting: int
    streams: int


def described() -> Iterator[Metric]:
    """Every metric as it is where there is nothing: its name, its type and what it tells."""
    return _metrics([], [], 0, _Work(0, 0, 0))


def _metrics(
    runs: list[RunSummary], usages: list[RunUsage], lag: int, work: _Work
) -> Iterator[Metric]:
    yield from _of_runs(runs)
    yield from _of_tenants(runs)
    yield from _of_counts(runs)
    yield from _of_usage(usages)
    yield _gauge("mulligan_projection_lag", "Feed entries that stored rows lacked.", lag)
    yield _gauge("mulligan_workers", "Worker processes that live.", work.workers)
    yield _gauge("mulligan_queue_messages", "Wake-ups that wait for a worker.", work.waiting)
    yield _gauge("mulligan_http_streams", "Clients that follow events here.", work.streams)


def _of_runs(runs: list[RunSummary]) -> Iterator[Metric]:
    by_status = Counter(row.status for row in runs)
    yield _labelled("mulligan_runs", "Runs by status.", "status", by_status)
    paused = Counter(row.reason or "operator" for row in runs if row.status == "paused")
    yield _labelled("mulligan_runs_paused", "Paused runs by what they wait for.", "reason", paused)
    unknown = sum(len(row.unknown) for row in runs if row.status not in ENDED_RUN)
    told = "Effects of runs under way whose outcome is unknown."
    yield _gauge("mulligan_unknown_effects", told, unknown)
    unreadable = sum(row.unreadable is not None for row in runs)
    yield _gauge("mulligan_runs_unreadable", "Runs with an event of a newer version.", unreadable)
    nodes: Counter[str] = Counter()
    for row in runs:
        nodes.update(row.nodes)
    yield _counter("mulligan_nodes", "Nodes that ended, by how.", ("status",), nodes)


_COUNTED = {
    "model": "Requests to models that failed, by cause.",
    "output": "Outputs of models that were rejected, by why.",
    "tool": "Calls of tools that failed, by code.",
    "node": "Nodes that failed, by code.",
    "retry": "Attempts that were reserved, by reason.",
    "repair": "What became of the overseer's repairs.",
    "round": "Rounds of repair, by level.",
    "pause": "Pauses of nodes, by reason.",
}
_NAMES = {
    "model": "mulligan_model_failures",
    "output": "mulligan_outputs_rejected",
    "tool": "mulligan_tool_failures",
    "node": "mulligan_node_failures",
    "retry": "mulligan_retries",
    "repair": "mulligan_output_repairs",
    "round": "mulligan_repair_rounds",
    "pause": "mulligan_pauses",
}


def _of_counts(runs: list[RunSummary]) -> Iterator[Metric]:
    sums: Counter[str] = Counter()
    for row in runs:
        sums.update(row.counts)
    for kind, told in _COUNTED.items():
        of_kind = {name.partition(":")[2]: n for name, n in sums.items() if name.startswith(kind)}
        yield _counter(_NAMES[kind], told, ("reason",), of_kind)


def _of_usage(rows: list[RunUsage]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "mulligan_model_requests", "Requests that were sent.", labels=("model", "by")
    )
    unknown = CounterMetricFamily(
        "mulligan_model_usage_unknown", "Those whose usage is unknown.", labels=("model", "by")
    )
    tokens = CounterMetricFamily(
        "mulligan_tokens", "Tokens as providers reported them.", labels=("model", "by", "kind")
    )
    cost = CounterMetricFamily(
        "mulligan_cost_usd", "Cost as far as it is known.", labels=("model", "by")
    )
    by_whom: dict[str, dict[str, ModelUsage]] = {
        "agent": total(row.models for row in rows),
        "overseer": total(row.overseer for row in rows),
    }
    for by, models in by_whom.items():
        for model, used in models.items():
            requests.add_metric((model, by), used.requests)
            unknown.add_metric((model, by), used.unknown)
            tokens.add_metric((model, by, "prompt"), used.prompt_tokens)
            tokens.add_metric((model, by, "completion"), used.completion_tokens)
            cost.add_metric((model, by), used.cost_usd or 0.0)
    yield from (requests, unknown, tokens, cost)


def _of_tenants(runs: list[RunSummary]) -> Iterator[Metric]:
    """Of those with most under way; the others are one, so that names do not make series."""
    begun: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for row in runs:
        if row.tenant is not None and row.status not in ENDED_RUN:
            (waiting if row.awaits_turn else begun)[row.tenant] += 1
    most = {tenant for tenant, _ in (begun + waiting).most_common(MOST_TENANTS)}
    metric = GaugeMetricFamily(
        "mulligan_tenant_runs",
        f"Runs of tenants under way or in line; beyond {MOST_TENANTS} tenants, of `{OTHERS}`.",
        labels=("tenant", "state"),
    )
    for state, counts in (("begun", begun), ("waiting", waiting)):
        shown: Counter[str] = Counter()
        for tenant, number in counts.items():
            shown[tenant if tenant in most else OTHERS] += number
        for tenant, number in sorted(shown.items()):
            metric.add_metric((tenant, state), number)
    yield metric


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=value)


def _labelled(name: str, told: str, label: str, values: dict[str, int]) -> Metric:
    metric = GaugeMetricFamily(name, told, labels=(label,))
    for value, number in sorted(values.items()):
        metric.add_metric((value,), number)
    return metric


def _counter(name: str, told: str, labels: tuple[str, ...], values: dict[str, int]) -> Metric:
    metric = CounterMetricFamily(name, told, labels=labels)
    for value, number in sorted(values.items()):
        metric.add_metric((value,), number)
    return metric
