"""
What the history checker is for: planted faults are found, each by its name, and a sound history
yields nothing (REC-30, REC-31, REC-33).
"""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mulligan.decisions import people
from mulligan.errors import LeaseFenced
from mulligan.events import facts
from mulligan.events.codec import encode
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import Append, ByTask, FeedEntry, Move
from mulligan.events.tasks import run_task
from mulligan.projections.projector import Projector
from mulligan.projections.rows import SUMMARIES
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, CodeRef, FunctionPlan, NodePlan, Plan, ToolSpec
from mulligan.testing import checker, in_memory
from mulligan.testing.checker import Effect, check
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.journal import Acknowledged, Journal, Taken, journaled
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.tools.registry import Tool

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PAY, PUBLISH = "steps:pay", "steps:publish"


def flow() -> Plan:
    """An agent that pays (a `write`) and is once asked again, then a function that publishes."""
    agent = AgentPlan(
        prompt="Pay.", model="m", output_schema=SCHEMA, recovery_limit=2, tools=(PAY,)
    )
    publish = FunctionPlan(
        call=CodeRef(path=PUBLISH, digest=""),
        arguments=("idempotency_key",),
        effect="write",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    spec = ToolSpec(
        name="pay", description="", parameters={"type": "object"}, effect="write", path=PAY,
        digest="",
    )  # fmt: skip
    return plan_of(
        NodePlan(id="pay", work=agent),
        NodePlan(id="publish", work=publish, needs=("pay",)),
        tools={PAY: spec},
    )


def stored(like: Envelope, id: str, fact: facts.Fact) -> tuple[int, bytes]:  # noqa: A002 - the field's name
    """An event as the log in memory holds it, about what another is about."""
    event = NewEvent(fact, node=like.node, attempt=like.attempt)
    return like.time_ms, encode(event, id=id, causation=None, correlation=None)


class Scene:
    """A run in memory that has ended, its journal, and what the world saw of it."""

    def __init__(self) -> None:
        self.seen: list[Effect] = []
        self.journal = Journal()
        provider = ScriptedProvider([self._pays, "no output", {"n": 1}])
        code: dict[str, Any] = {PAY: Tool(self._pay, name="pay"), PUBLISH: self._publish}
        self.world = InMemory(provider=provider, code=code, meddle=self._journaled)
        self.log: MemoryEventStore
        assert self.world.run(flow()).status == "completed"
        self.entries = self.journal.entries()

    def _journaled(self, store: Any) -> Any:
        self.log = store
        return journaled(store, self.journal)

    def _pays(self, request: ModelRequest) -> Answer:
        call = ToolCall("c", "pay", "{}")
        return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))

    def _pay(self, idempotency_key: str) -> str:
        self.seen.append(Effect(idempotency_key, self.world.now_ms))
        return "paid"

    def _publish(self, idempotency_key: str) -> str:
        self.seen.append(Effect(idempotency_key, self.world.now_ms))
        return "published"

    def found(self) -> set[str]:
        """The names of what the checker finds."""
        problems = check(self.world.store, journal=self.entries, effects=self.seen)
        print(*problems, sep="\n")
        return {problem.invariant for problem in problems}

    # --- Tampering ---------------------------------------------------------------------------

    @property
    def events(self) -> list[tuple[int, bytes]]:
        """The run's events as they are stored."""
        return self.log._runs["run"].events

    @property
    def feed(self) -> list[FeedEntry]:
        return self.log._feeds[0]

    def at(self, kind: type) -> int:
        """The place of the last fact of a kind."""
        found = [e.version - 1 for e in self.log.read("run") if isinstance(e.data, kind)]
        return found[-1]

    def change(self, kind: type, **fields: Any) -> None:
        """Another fact in the place of the last of a kind."""
        at = self.at(kind)
        event = self.log.read("run")[at]
        data = msgspec.structs.replace(event.data, **fields)
        self.events[at] = stored(event, event.id, data)

    def insert(self, fact: facts.Fact, after: type) -> None:
        """One more fact about the same node, and a feed that knows of it."""
        at = self.at(after)
        self.events.insert(at + 1, stored(self.log.read("run")[at], "planted.0", fact))
        self.refer_anew()

    def refer_anew(self) -> None:
        self.feed[:] = [FeedEntry("1-0", "run", len(self.events), len(self.events))]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_sound_history_yields_nothing(scene: Scene) -> None:
    Projector(scene.world.store).catch_up()

    assert [Effect("run:pay.1.1", 1_000), Effect("run:publish", 1_000)] == scene.seen
    assert not scene.found()


# --- Planted faults ------------------------------------------------------------------------------


def lose_the_last_append(scene: Scene) -> None:
    del scene.events[-1]
    scene.refer_anew()


def lose_a_run(scene: Scene) -> None:
    del scene.log._runs["run"]
    scene.feed.clear()


def lose_an_event_amidst(scene: Scene) -> None:
    del scene.events[scene.at(facts.ToolSucceeded)]
    scene.refer_anew()


def take_an_append_twice(scene: Scene) -> None:
    scene.events.insert(scene.at(facts.NodeCompleted) + 1, scene.events[-2])
    scene.refer_anew()


def tear_an_append_apart(scene: Scene) -> None:
    events = scene.events
    at = next(
        i for i, one in enumerate(events[:-3]) if msgspec.json.decode(one[1])["id"].endswith(".1")
    )
    events.insert(at + 3, events.pop(at))


def acknowledge_in_another_order(scene: Scene) -> None:
    own = [i for i, one in enumerate(scene.entries) if isinstance(one, Acknowledged)]
    first, last = own[1], own[-1]
    scene.entries[first], scene.entries[last] = scene.entries[last], scene.entries[first]


def have_an_effect_twice(scene: Scene) -> None:
    scene.seen.append(scene.seen[0])


def start_a_write_again(scene: Scene) -> None:
    scene.insert(facts.ToolStarted(call_id="pay.1.1", execution=2), after=facts.ToolStarted)


def call_a_write_function_again(scene: Scene) -> None:
    scene.insert(facts.NodeStarted(), after=facts.NodeStarted)


def have_an_effect_that_nobody_announced(scene: Scene) -> None:
    scene.seen.append(Effect("run:pay.7.1"))


def have_an_effect_before_its_start(scene: Scene) -> None:
    del scene.events[scene.at(facts.ToolStarted)]
    scene.refer_anew()


def lose_an_effect_that_succeeded(scene: Scene) -> None:
    del scene.seen[0]


def deny_an_effect(scene: Scene) -> None:
    denied = facts.EffectReconciled(call_id="pay.1.1", outcome="failed", by="verify")
    scene.insert(denied, after=facts.ToolStarted)


def overdraw_the_allowance(scene: Scene) -> None:
    scene.change(facts.AllowanceReserved, used=3)


def reset_the_allowance(scene: Scene) -> None:
    again = facts.AllowanceReserved(
        invocation="pay", reason="eof", next_attempt=3, used=1, limit=2, request_id="pay#2"
    )
    scene.insert(again, after=facts.AllowanceReserved)


def skip_in_the_feed(scene: Scene) -> None:
    del scene.feed[2]


def refer_to_less_than_there_is(scene: Scene) -> None:
    del scene.feed[-1]


def refer_twice(scene: Scene) -> None:
    last = scene.feed[-1]
    scene.feed.append(msgspec.structs.replace(last, id="999-0"))


def refer_out_of_order(scene: Scene) -> None:
    scene.feed[1], scene.feed[2] = scene.feed[2], scene.feed[1]


def leave_a_run_standing(scene: Scene) -> None:
    scene.world.store.append(people.request("left", "op", flow(), None))


def close_a_run_without_an_end(scene: Scene) -> None:
    scene.change(facts.RunCompleted, output=facts.Payload.of(1))
    scene.events[-1] = scene.events[-2]


def do_again_what_had_its_result(scene: Scene) -> None:
    scene.seen[0] = Effect("run:pay.1.1", 900_000)


def start_again_what_had_its_result(scene: Scene) -> None:
    scene.insert(facts.ToolStarted(call_id="pay.1.1", execution=2), after=facts.ToolSucceeded)


def answer_what_nobody_asked(scene: Scene) -> None:
    interrupted = facts.ModelInterrupted(request_id="pay#9", invocation="pay")
    scene.insert(interrupted, after=facts.NodeStarted)


def store_a_wrong_row(scene: Scene) -> None:
    Projector(scene.world.store).catch_up()
    _, rows = scene.log._rows[SUMMARIES.name, 0]
    rows["run"] = rows["run"].replace(b"completed", b"failed")


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (lose_the_last_append, "append_lost"),
        (lose_a_run, "append_lost"),
        (lose_an_event_amidst, "append_lost"),
        (take_an_append_twice, "append_doubled"),
        (tear_an_append_apart, "append_disordered"),
        (acknowledge_in_another_order, "append_disordered"),
        (have_an_effect_twice, "effect_doubled"),
        (start_a_write_again, "effect_doubled"),
        (call_a_write_function_again, "effect_doubled"),
        (have_an_effect_that_nobody_announced, "effect_unannounced"),
        (have_an_effect_before_its_start, "effect_unannounced"),
        (lose_an_effect_that_succeeded, "effect_invented"),
        (deny_an_effect, "effect_denied"),
        (overdraw_the_allowance, "allowance_exceeded"),
        (reset_the_allowance, "allowance_reset"),
        (skip_in_the_feed, "feed_skipped"),
        (refer_to_less_than_there_is, "feed_skipped"),
        (refer_twice, "feed_doubled"),
        (refer_out_of_order, "feed_disordered"),
        (leave_a_run_standing, "run_stalled"),
        (close_a_run_without_an_end, "run_stalled"),
        (do_again_what_had_its_result, "progress_lost"),
        (start_again_what_had_its_result, "progress_lost"),
        (answer_what_nobody_asked, "history_impossible"),
        (store_a_wrong_row, "fold_differs"),
    ],
)
def test_a_planted_fault_is_found_by_its_name(
    scene: Scene, plant: Callable[[Scene], None], name: str
) -> None:
    plant(scene)

    assert name in scene.found()


class Fenceless(MemoryEventStore):
    """A log that takes whatever it is handed in under any token."""

    def _judge_task(self, append: Append, writer: ByTask, run: Any) -> Any:
        return "OK"


class Task:
    """The task of a run, whose holders append when they like; its journal."""

    def __init__(self, log: type[MemoryEventStore]) -> None:
        self.now_ms = 1_000
        self.journal = Journal()
        self.store = journaled(log(lambda: self.now_ms), self.journal)
        self.store.append(people.request("run", "asked", flow(), None))

    def claim(self, token: str) -> None:
        """Claim it, for less than the time until the next claim."""
        self.store.claim("run", run_task("run"), token, 1_000)
        self.now_ms += 5_000

    def append(self, token: str) -> None:
        self.store.append(
            Append(
                run="run",
                op=f"of-{token}",
                writer=ByTask(run_task("run"), token, "", 0),
                events=(NewEvent(facts.RunPaused(reason="operator")),),
                moves=(Move(run_task("run"), "wait"),),
            )
        )

    def found(self) -> list[str]:
        return [one.invariant for one in check(self.store, journal=self.journal.entries())]


def test_an_append_under_a_stale_fence_is_found() -> None:
    task = Task(Fenceless)
    task.claim("first")
    task.claim("second")
    task.append("first")

    assert ["stale_fence"] == task.found()


def test_a_log_that_fences_yields_nothing() -> None:
    task = Task(MemoryEventStore)
    task.claim("first")
    task.claim("second")
    with pytest.raises(LeaseFenced):
        task.append("first")
    task.append("second")

    assert [] == task.found()


def test_a_holder_whose_lease_nobody_took_may_append() -> None:
    """An expired lease that nobody took is still its holder's (docs/log.md)."""
    task = Task(MemoryEventStore)
    task.claim("only")
    task.append("only")

    assert [] == task.found()


# --- What is no fault ----------------------------------------------------------------------------


def test_a_write_that_a_person_lets_be_tried_again_may_be_seen_twice(scene: Scene) -> None:
    retry = facts.EffectReconciled(call_id="pay.1.1", outcome="retry", by="ann")
    scene.insert(facts.ToolStarted(call_id="pay.1.1", execution=2), after=facts.ToolStarted)
    scene.insert(retry, after=facts.ToolRequested)
    have_an_effect_twice(scene)

    assert "effect_doubled" not in scene.found()


def test_a_node_that_fans_out_has_no_effect_of_its_own() -> None:
    """Only its instances are called."""
    each = FunctionPlan(
        call=CodeRef(path=PUBLISH, digest=""),
        arguments=("idempotency_key",),
        effect="idempotent",
        attempts=1,
        backoff_ms=1,
        backoff_max_ms=1,
    )
    seen: list[Effect] = []

    def publish(idempotency_key: str) -> None:
        seen.append(Effect(idempotency_key))

    world = InMemory(code={PUBLISH: publish})
    world.run(plan_of(NodePlan(id="each", work=each, for_each="input")), [1, 2])

    assert ["run:each[0]", "run:each[1]"] == sorted(effect.key for effect in seen)
    assert [] == check(world.store, effects=seen, covers={"each"})
    assert "effect_invented" in {
        one.invariant for one in check(world.store, effects=seen[1:], covers={"each"})
    }


def test_nobody_looked_at_what_is_not_covered(scene: Scene) -> None:
    lose_an_effect_that_succeeded(scene)

    found = check(scene.world.store, effects=scene.seen, covers={"publish"})

    assert [] == found


def test_a_trimmed_feed_joins_up_from_where_it_begins(scene: Scene) -> None:
    del scene.feed[:3]
    scene.log._trimmed[0] = 3

    assert not scene.found()


def test_a_run_that_is_asked_for_twice_is_acknowledged_as_one() -> None:
    journal = Journal()
    store = journaled(MemoryEventStore(lambda: 1_000), journal)
    store.append(people.request("run", "first", flow(), None))
    store.append(people.request("run", "second", flow(), None))

    assert [] == check(store, journal=journal.entries(), at_rest=False)


def test_a_request_whose_reply_was_lost_and_that_is_repeated_is_acknowledged_as_one() -> None:
    journal = Journal()
    store = MemoryEventStore(lambda: 1_000)
    asked = people.request("run", "only", flow(), None)
    store.append(asked)
    journaled(store, journal).append(asked)

    assert [] == check(store, journal=journal.entries(), at_rest=False)


def test_whose_claim_was_later_is_not_guessed_within_a_millisecond() -> None:
    """Two processes note what they were told in an order of their own."""
    task = Task(MemoryEventStore)
    task.claim("first")
    task.claim("second")
    task.append("second")
    told = [
        msgspec.structs.replace(entry, now_ms=0) if isinstance(entry, Taken) else entry
        for entry in task.journal.entries()
    ]
    told[1], told[2] = told[2], told[1]

    assert [] == check(task.store, journal=told)


def test_a_projection_that_has_passed_what_it_did_not_take_in_is_found(scene: Scene) -> None:
    Projector(scene.world.store).catch_up()
    _, rows = scene.log._rows[SUMMARIES.name, 0]
    del rows["run"]

    assert scene.found() == {"feed_skipped"}


def test_a_large_value_that_is_gone_is_found_as_lost(scene: Scene) -> None:
    scene.change(facts.RunCompleted, output=facts.Payload(digest="0" * 64, size=9_000))

    assert "append_lost" in scene.found()


def test_a_journal_outlives_a_process_that_was_killed_over_a_line(tmp_path: Any) -> None:
    file = tmp_path / "journal"
    Journal(file).note(Acknowledged(by="a", run="r", op="o", events=1))
    with file.open("ab") as lines:
        lines.write(b'{"type":"Ackno')

    assert [Acknowledged(by="a", run="r", op="o", events=1)] == Journal(file).entries()


@pytest.mark.parametrize("module", [checker, in_memory])
def test_the_examples_of_the_docstrings_run(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
