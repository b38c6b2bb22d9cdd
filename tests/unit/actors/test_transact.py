"""The one loop: what it makes of every answer that the log can give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from mulligan.actors.cache import Fold
from mulligan.actors.session import work
from mulligan.actors.transact import MAX_DECISIONS
from mulligan.decisions import people
from mulligan.errors import InvalidInput, StoreFull, StoreUnavailable, VersionConflict
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    EffectReconciled,
    NodeStarted,
    RunCancelled,
    RunCancelRequested,
    RunResumed,
    ToolReceiptArrived,
    ToolStarted,
    ToolSucceeded,
)
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.payload import Payload
from mulligan.events.store import (
    Append,
    Appended,
    AsFact,
    ByTask,
    ByVersion,
    EventStore,
    Move,
    NotClaimed,
)
from mulligan.projections.history import problems
from mulligan.providers.port import Answer, ToolCall
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan, ToolSpec
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.tools.result import success

ONE = NodePlan(
    id="one",
    work=FunctionPlan(
        call=CodeRef(path="steps:one", digest=""),
        arguments=(),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    ),
)


class Meddler:
    """A log between which and its writer something happens, once, at a given append."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.before: dict[type, Callable[[], Any]] = {}
        self.lose_reply_of: set[type] = set()
        self.full_for: set[type] = set()
        self.appends: list[Append] = []
        self.news_left = 0
        self.news_from: type | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, append: Append) -> Appended:
        kinds = {type(event.data) for event in append.events}
        for kind in kinds & self.before.keys():
            self.before.pop(kind)()
        if self.news_from in kinds:
            self.news_from = None
        if self.news_from is None and self.news_left and isinstance(append.writer, ByTask):
            self.news_left -= 1
            self._store.append(news(append.run, self.news_left))
        if isinstance(append.writer, ByTask) and append.writer.intent and kinds & self.full_for:
            self.full_for -= kinds
            raise StoreFull("no room for new work")
        self.appends.append(append)
        appended = self._store.append(append)
        lost = kinds & self.lose_reply_of
        if lost:
            self.lose_reply_of -= lost
            raise StoreUnavailable("the reply was lost")
        return appended


def news(run: str, number: int) -> Append:
    """A fact that wakes the run's task, and changes nothing."""
    return Append(
        run=run,
        op=f"news-{number}",
        writer=AsFact(f"news {number}"),
        events=(NewEvent(RunResumed()),),
        moves=(Move(f"{run}/", "wake"),),
    )


def world(**more: Any) -> tuple[InMemory, Meddler]:
    made: list[Meddler] = []

    def meddle(store: EventStore) -> Any:
        made.append(Meddler(store))
        return made[0]

    return InMemory(meddle=meddle, **more), made[0]


def calling_a_tool(effect: Any, calls: list[str]) -> tuple[InMemory, Meddler, Any]:
    spec = ToolSpec(
        name="save", description="", parameters={}, effect=effect, path="tools:save", digest=""
    )

    class Tool:
        def call(self, arguments: Any, *, key: str | None, context: Any = None) -> Any:
            calls.append(key or "")
            return success("saved")

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    agent = AgentPlan(
        prompt="p", model="m", output_schema=schema, recovery_limit=2, tools=("tools:save",)
    )
    provider = ScriptedProvider(
        [
            Answer(
                finish_reason="tool_calls",
                terminal=True,
                text="",
                calls=(ToolCall("c1", "save", "{}"),),
            ),
            Answer(
                finish_reason="tool_calls",
                terminal=True,
                text="",
                calls=(ToolCall("c2", "submit_output", '{"output": {"n": 1}}'),),
            ),
        ]
    )
    made, meddler = world(provider=provider, code={"tools:save": Tool()})
    plan = plan_of(NodePlan(id="a", work=agent), tools={"tools:save": spec})
    return made, meddler, plan


def tags(made: InMemory) -> list[str]:
    return [event.type for event in made.events()]


def test_dup_a_lost_reply_is_asked_for_again_with_the_same_bytes() -> None:
    calls: list[int] = []
    made, meddler = world(code={"steps:one": lambda: calls.append(1)})
    meddler.lose_reply_of = {NodeStarted}

    state = made.run(plan_of(ONE))

    assert ("completed", [1]) == (state.status, calls)
    first, second = [
        one for one in meddler.appends if any(type(e.data) is NodeStarted for e in one.events)
    ]
    assert first is second
    assert [] == problems(made.events())


def test_fenced_a_worker_whose_task_was_taken_stops_in_silence() -> None:
    calls: list[int] = []
    made, meddler = world(code={"steps:one": lambda: calls.append(1)})

    def taken() -> None:
        made.now_ms += 20_000
        made.store.sweep()
        made.store.claim("run", "run/", "another", 10_000)

    meddler.before = {NodeStarted: taken}

    state = made.run(plan_of(ONE))

    assert ("completed", [1]) == (state.status, calls), "only who came next called anything"
    assert 1 == tags(made).count("RunStarted")


def test_stale_a_late_decision_of_the_same_lease_changes_nothing() -> None:
    made, meddler = world(code={"steps:one": lambda: None})
    made.run(plan_of(ONE))
    late = next(one for one in meddler.appends if isinstance(one.writer, ByTask))
    version = made.state().version

    with pytest.raises(Exception, match=r"CLOSED|FENCED|STALE"):
        made.store.append(
            Append(run="run", op="late", writer=late.writer, events=late.events, moves=late.moves)
        )

    assert version == made.state().version


def test_dirty_what_arrived_is_read_and_decided_on_before_anything_starts() -> None:
    calls: list[int] = []
    made, meddler = world(code={"steps:one": lambda: calls.append(1)})

    def cancelled() -> None:
        append = people.cancel(made.state(), "cancel")
        assert append is not None
        made.store.append(append)

    meddler.before = {NodeStarted: cancelled}

    state = made.run(plan_of(ONE))

    assert ("cancelled", []) == (state.status, calls)
    assert RunCancelRequested.__name__ in tags(made)


def test_closed_a_node_of_a_cancelled_run_starts_nothing() -> None:
    calls: list[str] = []
    two = NodePlan(id="two", work=ONE.work)
    made, meddler = world(code={"steps:one": lambda: calls.append("called")})

    def cancelled() -> None:
        append = people.cancel(made.state(), "cancel")
        assert append is not None
        made.store.append(append)

    meddler.before = {NodeStarted: cancelled}

    state = made.run(plan_of(ONE, two))

    assert ("cancelled", []) == (state.status, calls)


def test_conflict_a_person_who_saw_an_older_version_is_told() -> None:
    cut = Answer(finish_reason=None, terminal=False, text="")
    made, _ = world(provider=ScriptedProvider([cut]))
    agent = AgentPlan(prompt="p", model="m", output_schema={"type": "object"}, recovery_limit=0)
    state = made.run(plan_of(NodePlan(id="a", work=agent)))
    assert "paused" == state.status
    seen = people.resume(state, "resume")
    stale = replace(seen, writer=ByVersion(state.version - 1))

    with pytest.raises(VersionConflict, match=f"version {state.version}"):
        made.store.append(stale)

    assert state == made.state()


def test_a_resume_of_what_is_not_paused_is_refused_before_anything_is_written() -> None:
    made, _ = world(code={"steps:one": lambda: None})
    state = made.run(plan_of(ONE))

    with pytest.raises(InvalidInput, match="completed"):
        people.resume(state, "resume")


@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
def test_rec31_a_receipt_whose_lease_was_lost_is_handed_in_as_a_fact(effect: str) -> None:
    calls: list[str] = []
    made, meddler, plan = calling_a_tool(effect, calls)

    def taken() -> None:
        made.now_ms += 20_000
        made.store.sweep()
        made.store.claim("run", "run/", "another", 10_000)

    meddler.before = {ToolSucceeded: taken}
    made.run(plan)
    made.now_ms += 20_000
    made.work()

    assert ("completed", 1) == (made.state().status, len(calls))
    assert [] == problems(made.events())
    receipt = next(e.data for e in made.events() if isinstance(e.data, ToolReceiptArrived))
    assert Payload.of("saved") == receipt.result
    assert 1 == sum(isinstance(e.data, ToolStarted) for e in made.events())


def test_full_what_a_tool_came_to_is_recorded_where_there_is_no_room_for_what_follows() -> None:
    calls: list[str] = []
    made, meddler, plan = calling_a_tool("write", calls)
    meddler.full_for = {ToolSucceeded}

    state = made.run(plan)

    alone = [
        [type(event.data) for event in one.events]
        for one in meddler.appends
        if any(isinstance(event.data, ToolSucceeded) for event in one.events)
    ]
    assert [[ToolSucceeded]] == alone
    assert ("completed", 1) == (state.status, len(calls))


def test_ignored_a_message_for_a_task_that_is_gone_does_nothing() -> None:
    made, _ = world(code={"steps:one": lambda: None})
    made.run(plan_of(ONE))
    version = made.state().version

    for task in ("run/", "run/n:one", "run/n:never"):
        made.wake(task)
    made.work()

    assert version == made.state().version
    assert NotClaimed("GONE") == made.store.claim("run", "run/", "late", 1_000)


def test_an_error_that_no_decision_names_parks_the_run_and_a_resume_lets_it_go_on() -> None:
    class Broken(dict[str, Any]):
        def __contains__(self, path: object) -> bool:
            return True

    made, _ = world(code=Broken(other=None))

    state = made.run(plan_of(ONE))

    assert ("paused", "parked") == (state.status, state.reason)
    assert "KeyError" in state.detail
    made._runtime.code._code = {"steps:one": lambda: "done"}  # type: ignore[attr-defined]
    append = people.resume(state, "resume")
    made.store.append(append)
    for move in append.moves:
        made.wake(move.task)
    made.work()
    assert "completed" == made.state().status


def test_missing_code_parks_where_nobody_has_it_and_what_was_done_before_is_kept() -> None:
    calls: list[str] = []
    made, _, plan = calling_a_tool("write", calls)
    mail = ToolSpec(
        name="mail", description="", parameters={}, effect="write", path="tools:mail", digest=""
    )
    agent = replace(plan.nodes[0].work, tools=("tools:save", "tools:mail"))
    both = {**plan.tools, "tools:mail": mail}
    provider = ScriptedProvider(
        [
            Answer(
                finish_reason="tool_calls",
                terminal=True,
                text="",
                calls=(ToolCall("c1", "save", "{}"), ToolCall("c2", "mail", "{}")),
            )
        ]
    )
    made._runtime.provider = provider

    state = made.run(plan_of(NodePlan(id="a", work=agent), tools=both))

    assert ("paused", "parked") == (state.status, state.reason)
    assert 1 == len(calls)
    statuses = [call.status for call in state.invocations["a"].calls.values()]
    assert ["succeeded", "requested"] == statuses

    made._runtime.code._code["tools:mail"] = made._runtime.code._code["tools:save"]
    made.store.append(people.redrive(state, "redrive"))
    made.work()

    assert 2 == len(calls), "the tool that had run did not run again"
    assert [] == problems(made.events())


def test_redrive_wakes_only_what_is_parked() -> None:
    made, _ = world(code={})
    state = made.run(plan_of(ONE))
    assert "parked" == state.reason

    redriven = people.redrive(state, "redrive")

    assert ["RunResumed"] == [event.data.__class__.__name__ for event in redriven.events]
    made.store.append(redriven)
    with pytest.raises(InvalidInput, match="nothing is parked"):
        people.redrive(made.state(), "again")


def test_a_log_that_was_set_back_is_read_anew_by_a_worker_that_knows_more() -> None:
    """A restored older file: what was known beyond it never happened."""
    plan = plan_of(ONE, replace(ONE, id="two", needs=("one",)))
    newer, older = InMemory(code={"steps:one": lambda: 1}), InMemory()
    assert newer.run(plan).status == "completed"
    older.store.append(people.request("run", "request-run", plan, None))
    fold = Fold("run", cast(EventStore, Switch(newer.store)))
    fold.reach(newer.state().version)

    cast(Switch, fold._store).store = older.store
    fold.reach(1)

    assert ("queued", 1) == (fold.branch().status, fold.branch().version)


class Switch:
    """A server that can be set back."""

    def __init__(self, store: EventStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.mark.parametrize("known", ["request", "nothing"])
def test_a_receipt_for_a_call_that_a_log_which_was_set_back_lacks_parks_nothing(known: str) -> None:
    """The server was restarted from an older file while a tool ran: the run goes on from there."""
    calls: list[str] = []
    made, meddler, plan = calling_a_tool("idempotent", calls)
    answers = cast(ScriptedProvider, made._runtime.provider)._answers
    made._runtime.provider = ScriptedProvider([answers[0], *answers])

    def set_back() -> None:
        meddler._store = MemoryEventStore(lambda: made.now_ms)
        if known == "request":
            meddler._store.append(people.request("run", "request-run", plan, None))

    meddler.before = {ToolSucceeded: set_back}
    with capture_logs() as logs:
        made.run(plan)

    assert "task_parked" not in {entry["event"] for entry in logs}
    assert "late_receipt_ignored" in {entry["event"] for entry in logs}
    if known == "request":
        assert ("completed", None) == (made.state().status, made.state().reason)
        assert [] == problems(made.events())


def test_rec31_verify_is_not_asked_while_a_write_may_still_run_though_the_clock_was_set() -> None:
    """
    The server's clock jumps: a lease looks over while its holder, by its own clock, still writes. A
    `verify` that was asked now would see nothing, and be believed.
    """
    made, tool, plan = writing()

    def jumps() -> None:
        made.set_clock_forward(20_000)
        made.store.sweep()
        work(made._runtime, "run/")
        assert [] == tool.asked, "it was asked while the write ran"

    tool.during = jumps
    made.run(plan)
    made.work()

    assert ("completed", 1) == (made.state().status, tool.calls)
    assert [] == tool.asked, "the receipt came late, and settled it"
    assert [] == problems(made.events())


def test_rec31_verify_is_asked_once_the_lease_is_over_by_a_clock_that_nobody_set() -> None:
    made, tool, plan = writing()

    def lost() -> None:
        made.set_clock_forward(20_000)
        raise SystemExit

    tool.during = lost
    with pytest.raises(SystemExit):
        made.run(plan)
    made.work()

    assert ("completed", 1) == (made.state().status, tool.calls)
    (asked_ms,) = tool.asked
    assert asked_ms >= 1_000 + 20_000 + 10_000
    (told,) = [e.data for e in made.events() if isinstance(e.data, EffectReconciled)]
    assert ("succeeded", "verify") == (told.outcome, told.by)
    assert [] == problems(made.events())


def test_rec31_verify_is_asked_at_once_where_the_clock_ran_evenly() -> None:
    made, tool, plan = writing()

    def lost() -> None:
        raise SystemExit

    tool.during = lost
    made.now_ms += 10_000
    made.store.sweep()
    with pytest.raises(SystemExit):
        made.run(plan)
    made.work()

    (asked_ms,) = tool.asked
    assert asked_ms == 1_000 + 10_000 + 10_000


class Writes:
    """A `write` that can tell afterwards, and what happens while it runs."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.calls = 0
        self.asked: list[int] = []
        self.during: Callable[[], None] = lambda: None
        self._now_ms = now_ms

    def call(self, arguments: Any, *, key: str | None, context: Any = None) -> Any:
        self.calls += 1
        self.during()
        return success("saved")

    def observe(self, arguments: Any, *, key: str | None, context: Any = None) -> str:
        self.asked.append(self._now_ms())
        return "succeeded" if self.calls else "not_started"


def writing() -> tuple[InMemory, Writes, Any]:
    made, _, plan = calling_a_tool("write", [])
    tool = Writes(lambda: made.now_ms)
    made._runtime.code._code["tools:save"] = tool  # type: ignore[attr-defined]
    spec = replace(plan.tools["tools:save"], verifiable=True)
    return made, tool, replace(plan, tools={"tools:save": spec})


@pytest.mark.parametrize("from_", [NodeStarted, ToolSucceeded])
def test_news_that_come_faster_than_decisions_cost_neither_result_nor_task(from_: type) -> None:
    """As when hundreds of nodes end at once: a worker that is overtaken was not lost."""
    calls: list[str] = []
    made, meddler, plan = calling_a_tool("write", calls)
    meddler.news_left, meddler.news_from = 6 * MAX_DECISIONS, from_

    state = made.run(plan)

    assert ("completed", None, 1) == (state.status, state.reason, len(calls))
    assert 0 == meddler.news_left
    assert made.now_ms < 1_000 + 10_000, "nobody had to wait for the end of a lease"
    assert [] == problems(made.events())


def test_a_cancellation_that_fails_is_tried_again_by_itself() -> None:
    """Nobody could wake a run that is being cancelled, so it must not wait to be woken."""
    made, meddler = world(code={})
    state = made.run(plan_of(ONE))
    cancel = people.cancel(state, "cancel")
    assert cancel is not None
    made.store.append(cancel)

    def fails() -> None:
        raise RuntimeError("a defect")

    meddler.before = {RunCancelled: fails}
    made.work()

    assert "cancelled" == made.state().status


def test_a_function_that_changes_what_it_is_given_changes_nothing_for_others() -> None:
    def greedy(one: dict[str, Any]) -> int:
        one["n"] += 1
        return int(one["n"])

    def call(path: str, *arguments: str) -> FunctionPlan:
        return replace(ONE.work, call=CodeRef(path=path, digest=""), arguments=arguments)  # type: ignore[type-var]

    greedy_node = NodePlan(id="two", needs=("one",), work=call("steps:greedy", "one"))
    after = NodePlan(id="three", needs=("one", "two"), work=call("steps:greedy", "one"))
    made, _ = world(code={"steps:one": lambda: {"n": 1}, "steps:greedy": greedy})

    state = made.run(plan_of(ONE, greedy_node, after))

    assert (Payload.of(2), Payload.of(2)) == (state.nodes["two"].output, state.output)
