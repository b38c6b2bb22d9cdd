"""The metrics of `GET /metrics`, as the server describes them."""

from __future__ import annotations

from prometheus_client import Metric

from mulligan.web.metrics import described
from reference.table import table


def metrics() -> str:
    """A table of them, with the names under which Prometheus stores them."""
    return table(("metric", "type", "is"), map(_row, described()))


def _row(metric: Metric) -> tuple[str, str, str]:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = getattr(metric, "_labelnames", ())
    shown = f"{name}{{{', '.join(labels)}}}" if labels else name
    return f"`{shown}`", metric.type, metric.documentation
