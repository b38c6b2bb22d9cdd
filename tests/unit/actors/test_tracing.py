"""What a worker hands to OpenTelemetry of the runs that it works, and what its log lines name."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind
from structlog.testing import capture_logs

from mulligan import Workflow, tool
from mulligan.actors.otel import OtelTracing, make_provider
from mulligan.actors.tracing import Tracing
from mulligan.client import compile_flow
from mulligan.decisions import people
from mulligan.errors import StoreUnavailable
from mulligan.events.envelope import Envelope
from mulligan.events.store import Appended, EventStore
from mulligan.providers.port import Answer, ToolCall
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider

PRODUCER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
log = structlog.get_logger()


class Collected:
    """A provider, and the spans that came out of it."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider: TracerProvider = make_provider([self.exporter])

    def __call__(self, store: EventStore) -> Tracing:
        return OtelTracing(self.provider, store.read)

    def ids(self, name: str | None = None) -> set[tuple[int, int]]:
        """Traces and spans, of all or of those of a name."""
        self.provider.force_flush()
        return {
            (span.context.trace_id, span.context.span_id)
            for span in self.exporter.get_finished_spans()
            if span.context and name in (None, span.name)
        }

    def spans(self) -> dict[str, ReadableSpan]:
        self.provider.force_flush()
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.provider.shutdown()


SEEN: list[SpanContext] = []


@tool(effect="read")
def look(word: str) -> str:
    """Look a word up."""
    log.info("looked")
    SEEN.append(trace.get_current_span().get_span_context())
    return f"{word} is a word"


def join(collect: dict[str, Any]) -> str:
    log.info("joined")
    return "joined"


def flow() -> Workflow:
    made = Workflow("brief", model="scripted/any")
    made.agent("collect", prompt="Collect.", tools=[look], output={"type": "object"})
    made.function("join", join, needs=["collect"])
    return made


LOOK = Answer(
    finish_reason="tool_calls",
    terminal=True,
    text="",
    calls=(ToolCall("call_1", "look", '{"word": "tea"}'),),
)


def world(tracing: Callable[[EventStore], Tracing], **options: Any) -> InMemory:
    return InMemory(provider=ScriptedProvider([LOOK, {}]), tracing=tracing, **options)


def test_a_run_is_one_trace_of_the_genai_conventions(collected: Collected) -> None:
    assert world(collected).run(flow()).status == "completed"

    spans = collected.spans()
    names = {span.context.span_id: name for name, span in spans.items() if span.context}
    parents = {
        name: names[span.parent.span_id] if span.parent else None for name, span in spans.items()
    }
    assert parents == {
        "invoke_workflow brief": None,
        "invoke_agent collect": "invoke_workflow brief",
        "chat any": "invoke_agent collect",
        "execute_tool look": "invoke_agent collect",
        "node join": "invoke_workflow brief",
        "advance_run": "invoke_workflow brief",
    }
    assert len({span.context.trace_id for span in spans.values() if span.context}) == 1
    assert spans["chat any"].kind is SpanKind.CLIENT
    assert spans["execute_tool look"].attributes is not None
    assert spans["execute_tool look"].attributes["gen_ai.tool.name"] == "look"
    assert spans["chat any"].resource.attributes["service.name"] == "mulligan"


def test_spans_of_users_own_are_part_of_the_tool_that_makes_them(collected: Collected) -> None:
    SEEN.clear()
    world(collected).run(flow())

    own = collected.spans()["execute_tool look"].context
    assert own is not None
    assert [(seen.trace_id, seen.span_id) for seen in SEEN] == [(own.trace_id, own.span_id)]


def test_where_it_was_asked_for_is_a_link(collected: Collected) -> None:
    at = world(collected)
    at.store.append(people.request("run", "op", compile_flow(flow()), None, traceparent=PRODUCER))
    at.work()

    root = collected.spans()["invoke_workflow brief"]
    (link,) = root.links
    assert f"{link.context.trace_id:032x}-{link.context.span_id:016x}" == PRODUCER[3:-3]
    assert root.parent is None


class Alternating(Tracing):
    """Every other append of a run is another worker's."""

    def __init__(self, workers: Iterable[Tracing]) -> None:
        self._workers = cycle(workers)

    def appended(self, run: str, op: str, appended: Appended) -> None:
        next(self._workers).appended(run, op, appended)


def test_workers_that_take_turns_tell_one_trace_each_span_once() -> None:
    alone, both = Collected(), (Collected(), Collected())

    world(alone).run(flow())
    world(lambda store: Alternating([one(store) for one in both])).run(flow())

    whole = alone.ids() - alone.ids("advance_run")
    assert both[0].ids() | both[1].ids() == whole
    assert all(one.ids() for one in both)
    assert not both[0].ids() & both[1].ids()


def test_a_sampler_decides_for_the_whole_trace(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    sampled = Collected()
    for number in range(20):
        world(sampled).run(flow(), run=f"run-{number}")
    sampled.provider.force_flush()

    traces = Counter(
        span.context.trace_id for span in sampled.exporter.get_finished_spans() if span.context
    )
    assert 0 < len(traces) < 20
    assert set(traces.values()) == {7}


def test_a_run_goes_on_where_nobody_can_be_told(collected: Collected) -> None:
    """A log that can't be read again, say."""

    def unreadable(run: str, after: int) -> list[Envelope]:
        raise StoreUnavailable("gone")

    at = world(lambda store: OtelTracing(collected.provider, unreadable))

    with capture_logs() as logs:
        assert at.run(flow()).status == "completed"
    assert "spans_left_out" in {line["event"] for line in logs}


def test_a_collector_that_hangs_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    class Hanging(InMemorySpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            answered.wait(30)
            return super().export(spans)

    monkeypatch.setattr("mulligan.actors.otel.FLUSH_S", 0.05)
    hanging = make_provider([Hanging()])
    told = OtelTracing(hanging, lambda run, after: [])
    hanging.get_tracer("here").start_span("one").end()

    began_s = time.monotonic()
    told.flush()

    assert time.monotonic() - began_s < 10
    assert not answered.is_set()
    answered.set()
    hanging.shutdown()


def test_lines_of_users_functions_and_tools_name_run_node_and_attempt() -> None:
    with capture_logs([structlog.contextvars.merge_contextvars]) as logs:
        world(lambda store: Tracing()).run(flow())

    said = {line["event"]: line for line in logs}
    for event, node in (("looked", "collect"), ("joined", "join")):
        assert (said[event]["run"], said[event]["node"], said[event]["attempt"]) == ("run", node, 1)
