"""
Spans handed to OpenTelemetry's SDK, as its own variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`, …).

A span is told by the worker whose append ended it. Its ids come from the log
(`projections/spans.py`), its times are the server's; only the spans of actors, from a task's claim
to its release, are this process's own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, assert_never

import structlog
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mulligan._version import __version__
from mulligan.actors.tracing import ReadEvents, Tracing
from mulligan.decisions.decision import (
    AskModel,
    CallFunction,
    Effect,
    JudgeDraft,
    ObserveTool,
    ReworkDraft,
    RunTool,
)
from mulligan.decisions.reactions import actor_of
from mulligan.events.ids import invocation_of_call
from mulligan.events.store import Appended
from mulligan.logs import stack_of
from mulligan.projections import spans
from mulligan.projections.span_fold import evolve
from mulligan.projections.spans import RunSpans, Span
from mulligan.settings import SpanExporterName

if TYPE_CHECKING:
    from mulligan.actors.cache import Fold

SERVICE = "mulligan"
"""The service's name, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` says another."""

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
MOST_RUNS = 1_000
MOST_APPENDS = 1_000
"""Of others, kept of a run: one of ours may have been read by another thread before we tell."""

FLUSH_S = 3.0
"""A collector that is away must not hold up the end of a worker for longer."""

MS = 1_000_000
"""Nanoseconds."""

_log = structlog.get_logger(__name__)


class LogIds(RandomIdGenerator):
    """Ids that were made from the log, where this thread has said which; else random ones."""

    def __init__(self) -> None:
        self._next = threading.local()

    @contextmanager
    def giving(self, trace_id: int, span_id: int) -> Iterator[None]:
        """The ids of the one span that is begun within this context."""
        self._next.ids = trace_id, span_id
        try:
            yield
        finally:
            self._next.ids = None

    def generate_trace_id(self) -> int:
        """See `IdGenerator`."""
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        return ids[0] if ids else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """See `IdGenerator`."""
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        return ids[1] if ids else super().generate_span_id()


@cache
def provider_of(exporters: tuple[SpanExporterName, ...]) -> TracerProvider:
    """The one of this process. Users' code gets it too, unless it has set up its own."""
    provider = make_provider([_exporter(name) for name in exporters])
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(provider)
    return provider


def make_provider(exporters: Sequence[SpanExporter]) -> TracerProvider:
    """A provider that hands over to these, with ids from the log."""
    named = Resource.create({"service.version": __version__})
    if str(named.attributes[SERVICE_NAME]).startswith("unknown_service"):
        named = named.merge(Resource({SERVICE_NAME: SERVICE}))
    provider = TracerProvider(resource=named, id_generator=LogIds())
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter(name: SpanExporterName) -> SpanExporter:
    match name:
        case "otlp":
            return OTLPSpanExporter()
        case "console":
            return ConsoleSpanExporter()
        case _:
            assert_never(name)


class OtelTracing(Tracing):
    """Tells of the runs that this process works, through a provider of `make_provider`."""

    def __init__(self, provider: TracerProvider, read: ReadEvents) -> None:
        assert isinstance(provider.id_generator, LogIds)
        self._provider = provider
        self._ids = provider.id_generator
        self._tracer = provider.get_tracer("mulligan", __version__, SCHEMA)
        self._read = read
        self._flags = lru_cache(MOST_RUNS)(self._flags_of)
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, _Followed] = OrderedDict()

    def appended(self, run: str, op: str, appended: Appended) -> None:
        """See `Tracing`. Whatever goes wrong here is no reason to leave the run."""
        followed = self._followed(run)
        try:
            for span in followed.ended_with(op, appended, self._read):
                self._tell(span, followed.fold)
                if span.key == spans.RUN:
                    self._forget(run)
        except Exception as error:
            _log.warning("spans_left_out", run=run, stack=stack_of(error))
            self._forget(run)

    def worked(self, fold: Fold, task: str, began_ns: int, *, took_over: bool) -> None:
        """See `Tracing`."""
        if fold.requested_ms is None:
            return
        context = self._context(fold.run, fold.requested_ms, spans.task_key(task))
        attributes: dict[str, str | bool] = {
            "mulligan.run": fold.run,
            "mulligan.task": task,
            "mulligan.took_over": took_over,
        }
        name = actor_of(task)
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=began_ns)
        span.end(time.time_ns())

    @contextmanager
    def within(self, fold: Fold, effect: Effect) -> Iterator[None]:
        """See `Tracing`."""
        context = self._context(fold.run, fold.requested_ms or 0, _key_of(effect))
        token = contexts.attach(context)
        try:
            yield
        finally:
            contexts.detach(token)

    def flush(self) -> None:
        """See `Tracing`. In a thread of its own, since the SDK's knows no bound."""
        thread = threading.Thread(target=self._provider.force_flush, name="spans", daemon=True)
        thread.start()
        thread.join(FLUSH_S)

    def _tell(self, span: Span, fold: RunSpans) -> None:
        trace_id = spans.trace_id(fold.run, fold.requested_ms)
        parent = None
        if span.parent is not None:
            parent = self._context(fold.run, fold.requested_ms, span.parent)
        with self._ids.giving(trace_id, spans.span_id(trace_id, span.key)):
            told = self._tracer.start_span(
                span.name,
                parent if parent is not None else contexts.Context(),
                SpanKind.CLIENT if span.client else SpanKind.INTERNAL,
                span.attributes,
                _links(span.producer),
                span.start_ms * MS,
            )
        for moment in span.moments:
            told.add_event(moment.name, moment.attributes, moment.time_ms * MS)
        if span.error is not None:
            told.set_status(Status(StatusCode.ERROR))
        told.end(max(span.end_ms, span.start_ms) * MS)

    def _context(self, run: str, requested_ms: int, key: str) -> contexts.Context:
        """The context of a span that is told by whoever sees its end."""
        trace_id = spans.trace_id(run, requested_ms)
        span_id = spans.span_id(trace_id, key)
        flags = self._flags(trace_id)
        parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(NonRecordingSpan(parent), contexts.Context())

    def _flags_of(self, trace_id: int) -> TraceFlags:
        """What the sampler says of the trace's root; the same for the same trace."""
        said = self._provider.sampler.should_sample(None, trace_id, "invoke_workflow")
        sampled = said.decision is Decision.RECORD_AND_SAMPLE
        return TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)

    def _followed(self, run: str) -> _Followed:
        with self._lock:
            followed = self._runs.get(run)
            if followed is None:
                followed = self._runs[run] = _Followed(run)
                if len(self._runs) > MOST_RUNS:
                    self._runs.popitem(last=False)
            self._runs.move_to_end(run)
            return followed

    def _forget(self, run: str) -> None:
        with self._lock:
            self._runs.pop(run, None)


class _Followed:
    """A run that this process works, and what ended in it with appends that are not told yet."""

    def __init__(self, run: str) -> None:
        self.fold = RunSpans(run=run)
        self._lock = threading.Lock()
        self._ended: OrderedDict[str, list[Span]] = OrderedDict()

    def ended_with(self, op: str, appended: Appended, read: ReadEvents) -> list[Span]:
        """The spans that ended with the append `op`; what others added is read first."""
        with self._lock:
            events = list(appended.events)
            if self.fold.version != appended.version - len(events) or appended.repeated:
                behind = self.fold.version < appended.version
                events = read(self.fold.run, self.fold.version) if behind else []
            for event in events:
                ended = evolve(self.fold, event)
                if ended:
                    self._ended.setdefault(event.id.rpartition(".")[0], []).extend(ended)
            mine = self._ended.pop(op, [])
            while len(self._ended) > MOST_APPENDS:
                self._ended.popitem(last=False)
            return mine


def _key_of(effect: Effect) -> str:
    match effect:
        case RunTool():
            return spans.tool_key(effect.call_id, effect.execution)
        case ObserveTool():
            return spans.invocation_key(invocation_of_call(effect.call_id))
        case AskModel():
            return spans.invocation_key(effect.prepared.request.request_id.rpartition("#")[0])
        case CallFunction() | JudgeDraft() | ReworkDraft():
            return spans.node_key(effect.node)
        case _:
            assert_never(effect)


def _links(producer: str | None) -> tuple[Link, ...]:
    """A link to where the run was asked for."""
    if producer is None:
        return ()
    carrier: Mapping[str, str] = {"traceparent": producer}
    found = TraceContextTextMapPropagator().extract(carrier, contexts.Context())
    asked_in = trace.get_current_span(found).get_span_context()
    return (Link(asked_in),) if asked_in.is_valid else ()
