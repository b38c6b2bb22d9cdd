"""What has to be so before a write begins, besides its start in the log (no server here)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.actors.write_intents import WriteIntents
from mulligan.decisions import people
from mulligan.errors import IntentsUnfit, StoreUnavailable
from mulligan.events.facts import NodePaused, ToolFailed, ToolStartLost
from mulligan.events.folder_intents import FolderIntents
from mulligan.events.intents import Intent
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.store import EventStore
from mulligan.projections.advice import why
from mulligan.projections.history import problems
from mulligan.projections.lost_starts import lacking
from mulligan.projections.state import RunState
from mulligan.providers.port import Answer, ToolCall
from mulligan.schemas.plan import AgentPlan, NodePlan, ToolSpec
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.tools.result import success


class Log:
    """A log that can be set back to nothing."""

    def __init__(self, store: EventStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class Send:
    """A `write`, and what it says when it is asked afterwards."""

    def __init__(self) -> None:
        self.calls: list[str | None] = []
        self.asked: list[str | None] = []

    def call(self, arguments: Any, *, key: str | None, context: Any = None) -> Any:
        self.calls.append(key)
        return success("sent")

    def observe(self, arguments: Any, *, key: str | None, context: Any = None) -> str:
        self.asked.append(key)
        return "succeeded" if key in self.calls else "not_started"


def calls(*names: str, arguments: str = "{}") -> Answer:
    made = tuple(ToolCall(f"c{number}", name, arguments) for number, name in enumerate(names))
    return Answer(finish_reason="tool_calls", terminal=True, text="", calls=made)


SEND = calls("send")
DONE = calls("submit_output", arguments='{"output": {"n": 1}}')


class World(InMemory):
    """Runs of one agent that sends, on a log that can be set back, and a witness that stays."""

    def __init__(self, folder: Path, *answers: Answer, verifiable: bool = False) -> None:
        self.send = Send()
        self.witness = FolderIntents(folder)
        super().__init__(
            provider=ScriptedProvider(answers),
            code={"t:send": self.send, "t:look": Send()},  # type: ignore[dict-item]
            meddle=lambda store: Log(store),  # type: ignore[arg-type,return-value]
        )
        self._runtime.intents = WriteIntents(self.witness)
        send = ToolSpec(
            name="send",
            description="",
            parameters={"type": "object"},
            effect="write",
            path="t:send",
            digest="",
            verifiable=verifiable,
        )
        look = replace(send, name="look", effect="read", path="t:look", verifiable=False)
        tools = {"t:send": send, "t:look": look}
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        agent = AgentPlan(
            prompt="p", model="m", output_schema=schema, recovery_limit=2, tools=tuple(tools)
        )
        self.plan = plan_of(NodePlan(id="a", work=agent), tools=tools)

    def forget_and_run(self) -> RunState:
        """
        The run comes to its end, the log is set back to before it was asked for, and it is asked
        for again, by a producer that got no answer.
        """
        assert "completed" == self.run(self.plan).status
        assert [] == lacking(self.events(), self.witness.of_run("run"))
        assert isinstance(self.store, Log)
        self.store.store = MemoryEventStore(lambda: self.now_ms)
        return self.run(self.plan)

    def lost(self) -> list[str]:
        events = (event.data for event in self.events())
        return [fact.call_id for fact in events if isinstance(fact, ToolStartLost)]

    def say(self, call: str, outcome: Any) -> RunState:
        said = people.reconcile(self.state(), f"said-{call}", call, outcome, by="ann", result="ok")
        self.store.append(said)
        self.work()
        return self.state()


def test_rec31_a_write_that_a_log_has_forgotten_is_for_a_person_and_goes_on_with_their_word(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, SEND, DONE, SEND, DONE)

    state = world.forget_and_run()

    assert ("paused", "reconciliation_required") == (state.status, state.reason)
    assert (1, ["a.1.1"]) == (len(world.send.calls), world.lost())
    told = "the log was set back, and had lost the start of a.1.1 (execution 1 of t:send"
    assert told in why(state)
    (paused,) = [e.data for e in world.events() if isinstance(e.data, NodePaused)]
    assert "it was not begun" in paused.detail
    assert 1 == len(lacking(world.events(), world.witness.of_run("run")))
    assert "completed" == world.say("a.1.1", "retry").status
    assert 2 == len(world.send.calls), "a person let it be done"
    assert [] == problems(world.events())


def test_rec31_a_write_under_another_id_waits_as_well_since_it_may_be_the_same_one(
    tmp_path: Path,
) -> None:
    """Asked again, a model may look first, and what was a.1.1 is a.2.1 then."""
    world = World(tmp_path, SEND, DONE, calls("look"), SEND, DONE, verifiable=True)

    state = world.forget_and_run()

    assert ("paused", "reconciliation_required") == (state.status, state.reason)
    assert (["a.1.1"], 1, []) == (world.lost(), len(world.send.calls), world.send.asked)
    assert "completed" == world.say("a.2.1", "failed").status
    assert 1 == len(world.send.calls)


def test_rec31_of_the_very_same_call_its_verify_is_asked_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, SEND, DONE, SEND, DONE, verifiable=True)

    state = world.forget_and_run()

    assert ("completed", 1) == (state.status, len(world.send.calls))
    assert (["run:a.1.1"], ["a.1.1"]) == (world.send.asked, world.lost())


def test_rec31_the_same_id_with_other_arguments_is_no_such_call(tmp_path: Path) -> None:
    other = calls("send", arguments='{"to": "ann"}')
    world = World(tmp_path, SEND, DONE, other, DONE, verifiable=True)

    assert "paused" == world.forget_and_run().status
    assert (1, []) == (len(world.send.calls), world.send.asked)


def test_what_was_lost_is_asked_about_once(tmp_path: Path) -> None:
    world = World(tmp_path, SEND, DONE, calls("send", "send"), DONE)
    world.forget_and_run()

    assert "completed" == world.say("a.1.1", "succeeded").status

    assert ["a.1.1"] == world.lost()
    assert ["run:a.1.1", "run:a.1.2"] == world.send.calls


def test_a_start_that_is_in_the_log_and_not_read_here_yet_is_not_lost(tmp_path: Path) -> None:
    """Of two writes side by side one may see the other's note sooner than its event."""
    world = World(tmp_path, SEND, DONE)
    now = world.run(world.plan)
    known = [RunState(run="run")]
    (noted,) = world.witness.of_run("run")
    fresh = replace(noted, call_id="b.1.1", event="x.0")

    lost = WriteIntents(world.witness).announce(fresh, lambda: known[-1], lambda: known.append(now))

    assert ["b.1.1"] == [one.call_id for one in lost], "which is in no log"


class Refusing(FolderIntents):
    def note(self, intent: Intent) -> bool:
        raise IntentsUnfit("the disk is full; make room")


def test_where_nothing_can_be_noted_nothing_is_written(tmp_path: Path) -> None:
    world = World(tmp_path, SEND, DONE)
    world._runtime.intents = WriteIntents(Refusing(tmp_path))

    state = world.run(world.plan)

    assert ("completed", []) == (state.status, world.send.calls)
    (told,) = [e.data for e in world.events() if isinstance(e.data, ToolFailed)]
    assert ("not_run", "it did not run: the disk is full; make room") == (told.code, told.message)


@pytest.mark.parametrize("error", [IntentsUnfit("not synced"), StoreUnavailable("no answer")])
def test_a_start_that_may_not_be_on_disk_is_not_acted_on(tmp_path: Path, error: Exception) -> None:
    def fails() -> None:
        raise error

    world = World(tmp_path, SEND, DONE)
    world._runtime.intents = WriteIntents(None, fails)

    assert ("completed", []) == (world.run(world.plan).status, world.send.calls)
