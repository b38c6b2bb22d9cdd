"""
The history checker on a real server, where something else than the library has changed what is
there, or a worker went on from an older file: each fault is found by its name (REC-30, REC-31,
REC-33).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from redis import Redis

from mulligan.decisions import people
from mulligan.events import facts
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.keys import Keys
from mulligan.events.payload import payloads_of
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.store import Append, AsFact, ByTask, Claimed, Move
from mulligan.events.tasks import run_task
from mulligan.projections.projector import Projector
from mulligan.projections.rows import SUMMARIES
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.testing.checker import Effect, check
from mulligan.testing.in_memory import InMemory
from mulligan.testing.journal import Journal, journaled
from mulligan.testing.passing_time import pass_time
from mulligan.testing.scripted_provider import ScriptedProvider
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.tools.registry import Tool
from tests.unit.testing.test_checker import PAY, PUBLISH, flow

KEYS = Keys(0)
LARGE = "x" * 9_000
"""More than an event holds itself."""
KNOWN_ALLOWANCE = facts.AllowanceReserved(
    invocation="pay", reason="eof", next_attempt=3, used=1, limit=2, request_id="pay#3"
)


class Died(BaseException):
    """A worker is gone, whatever it was about to do."""


class Scene:
    """Runs on a real server, worked in this thread, their journal, and what the world saw."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.journal = Journal()
        self.seen: list[Effect] = []
        self.dies = False
        self.world = self._new_world()
        self.store = self.world.store

    def _new_world(self) -> InMemory:
        code: dict[str, Any] = {PAY: Tool(self._pay, name="pay"), PUBLISH: self._publish}
        return InMemory(
            provider=ScriptedProvider([self._pays, "no output", {"n": 1}]),
            code=code,
            meddle=lambda _: journaled(RedisEventStore(self.client), self.journal),
        )

    def play(self) -> None:
        assert self.world.run(flow()).status == "completed"

    def go_on(self) -> None:
        """As another worker would, once the leases are over."""
        self.dies = False
        self.world = self._new_world()
        pass_time(self.client, 60_000)
        self.world.work()

    def _pays(self, request: ModelRequest) -> Answer:
        call = ToolCall("c", "pay", "{}")
        return Answer(finish_reason="tool_calls", terminal=True, text="", calls=(call,))

    def _pay(self, idempotency_key: str) -> str:
        self.note(idempotency_key)
        return LARGE

    def _publish(self, idempotency_key: str) -> str:
        self.note(idempotency_key)
        return "published"

    def note(self, key: str) -> None:
        self.seen.append(Effect(key, time.time_ns() // 1_000_000))
        if self.dies:
            raise Died

    def found(self) -> set[str]:
        problems = check(self.store, journal=self.journal.entries(), effects=self.seen)
        print(*problems, sep="\n")
        return {problem.invariant for problem in problems}

    # --- Behind the library's back ---------------------------------------------------------------

    def version_of(self, kind: type) -> int:
        return self.last(kind).version

    def last(self, kind: type) -> Envelope:
        return [event for event in self.store.read("run") if isinstance(event.data, kind)][-1]

    def drop(self, version: int) -> None:
        """One event, on the server itself."""
        assert self.client.xdel(KEYS.run("run"), f"{version}-0") == 1

    def feed_ids(self) -> list[bytes]:
        return [entry for entry, _ in cast(Any, self.client.xrange(KEYS.feed))]


@pytest.fixture
def scene(server: ValkeyServer) -> Iterator[Scene]:
    with server.client() as client:
        client.flushall()
        yield Scene(client)


def test_a_sound_log_on_a_server_yields_nothing(scene: Scene) -> None:
    scene.play()
    Projector(scene.store).catch_up()

    assert not scene.found()
    assert 2 == len(scene.seen)


# --- Appends -------------------------------------------------------------------------------------


def drop_the_last_event(scene: Scene) -> None:
    scene.drop(scene.version_of(facts.RunCompleted))


def drop_an_event_amidst(scene: Scene) -> None:
    scene.drop(scene.version_of(facts.ToolSucceeded))


def drop_a_run(scene: Scene) -> None:
    scene.client.delete(KEYS.run("run"))
    scene.client.hdel(KEYS.runs, "run")
    scene.client.delete(KEYS.feed)


def drop_a_large_value(scene: Scene) -> None:
    (value,) = payloads_of(scene.last(facts.ToolSucceeded).data)
    assert not value.inline
    assert scene.client.delete(KEYS.payload("run", value.digest)) == 1


def write_an_event_again(scene: Scene) -> None:
    """With index and feed, as a log would whose memory of operations is gone."""
    version = scene.version_of(facts.RunCompleted)
    ((_, fields),) = cast(Any, scene.client.xrange(KEYS.run("run"), f"{version - 1}-0", count=1))[
        :1
    ]
    scene.client.xadd(KEYS.run("run"), fields, id=f"{version + 1}-0")
    scene.client.xadd(KEYS.feed, {"r": "run", "v": version + 1, "n": 1})
    row = cast(bytes, scene.client.hget(KEYS.runs, "run"))
    scene.client.hset(KEYS.runs, "run", row.replace(b"%d|" % version, b"%d|" % (version + 1), 1))


def give_an_allowance_anew(scene: Scene) -> None:
    """By an append that the log takes from anybody."""
    anew = NewEvent(KNOWN_ALLOWANCE, node="pay", attempt=2)
    fact = AsFact("anything", receipt=True)
    scene.store.append(Append(run="run", op="behind", writer=fact, events=(anew,)))


def drop_a_reference(scene: Scene) -> None:
    assert scene.client.xdel(KEYS.feed, scene.feed_ids()[2]) == 1


def skip_a_reference(scene: Scene) -> None:
    """A projector whose checkpoint has passed what it did not take in."""
    Projector(scene.store).catch_up()
    scene.store.append(people.request("other", "asked", flow(), None))
    scene.client.set(KEYS.checkpoint(SUMMARIES.name), scene.feed_ids()[-1])


def change_a_row(scene: Scene) -> None:
    Projector(scene.store).catch_up()
    key = KEYS.rows(SUMMARIES.name)
    row = cast(bytes, scene.client.hget(key, "run"))
    scene.client.hset(key, "run", row.replace(b"completed", b"failed"))


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (drop_the_last_event, "append_lost"),
        (drop_an_event_amidst, "append_lost"),
        (drop_a_run, "append_lost"),
        (drop_a_large_value, "append_lost"),
        (write_an_event_again, "append_doubled"),
        (give_an_allowance_anew, "allowance_reset"),
        (drop_a_reference, "feed_skipped"),
        (skip_a_reference, "feed_skipped"),
        (change_a_row, "fold_differs"),
    ],
)
def test_a_fault_planted_on_the_server_is_found_by_its_name(
    scene: Scene, plant: Callable[[Scene], None], name: str
) -> None:
    scene.play()
    plant(scene)

    assert name in scene.found()


@pytest.mark.parametrize("plant", [drop_the_last_event, drop_an_event_amidst, drop_a_large_value])
def test_what_is_lost_is_found_though_nobody_kept_a_journal(
    scene: Scene, plant: Callable[[Scene], None]
) -> None:
    """As `mulligan verify` has to."""
    scene.play()
    plant(scene)

    assert "append_lost" in {problem.invariant for problem in check(scene.store)}


# --- Workers -------------------------------------------------------------------------------------


def test_a_server_set_back_to_before_a_write_makes_it_happen_twice_and_is_found(
    scene: Scene,
) -> None:
    """No log can know what it lost (docs/log.md); the world outside and the journal do."""
    taken: dict[bytes, bytes] = {}
    pays = scene._pays

    def copied(request: ModelRequest) -> Answer:
        keys = cast("list[bytes]", scene.client.keys())
        taken.update({key: cast(bytes, scene.client.dump(key)) for key in keys})
        return pays(request)

    scene._pays = copied  # type: ignore[method-assign]
    scene.world, scene.dies = scene._new_world(), True
    with pytest.raises(Died):
        scene.world.run(flow())
    scene.client.flushall()
    for key, dumped in taken.items():
        scene.client.restore(key, 0, dumped)
    scene.go_on()

    assert 2 == sum(effect.key == "run:pay.1.1" for effect in scene.seen)
    assert {"effect_doubled", "append_lost"} <= scene.found()


def test_a_write_whose_worker_died_is_not_done_again_and_nothing_is_found(scene: Scene) -> None:
    """The same without the set-back: the run waits, for a reason that has a name."""
    scene.dies = True
    with pytest.raises(Died):
        scene.world.run(flow())
    scene.go_on()

    assert "reconciliation_required" == scene.world.state().reason
    assert not scene.found()


def test_an_append_that_a_server_takes_under_a_stale_fence_is_found(scene: Scene) -> None:
    """The record of a task names its former holder again, as one of an older file would."""
    task = run_task("held")
    scene.store.append(people.request("held", "asked", flow(), None))
    first = _claim(scene, task, "first")
    pass_time(scene.client, 20_000)
    # Of two claims in the same millisecond nobody knows which came first.
    until(lambda: _server_ms(scene) > first.now_ms, 10.0)
    _claim(scene, task, "second")
    record = cast(bytes, scene.client.hget(KEYS.tasks, task))
    scene.client.hset(KEYS.tasks, task, record.replace(b"|second|", b"|first|"))
    scene.store.append(
        Append(
            run="held",
            op="stale",
            writer=ByTask(task, "first", first.op, first.inbox),
            events=(NewEvent(facts.RunPaused(reason="operator")),),
            moves=(Move(task, "wait"),),
        )
    )

    assert {"stale_fence"} == scene.found()


def _server_ms(scene: Scene) -> int:
    seconds, micros = cast(tuple[int, int], scene.client.time())
    return seconds * 1_000 + micros // 1_000


def _claim(scene: Scene, task: str, token: str) -> Claimed:
    claimed = scene.store.claim("held", task, token, 10_000)
    assert isinstance(claimed, Claimed)
    return claimed
