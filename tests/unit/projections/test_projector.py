"""Rows that follow the feed, fall behind it, and are folded anew (no server)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mulligan.events.envelope import NewEvent
from mulligan.events.facts import ToolSucceeded
from mulligan.events.memory_store import MemoryEventStore
from mulligan.events.payload import Payload
from mulligan.events.store import Append, AsFact
from mulligan.projections.projector import PATIENCE_S, SAY_EVERY_ROUNDS, Projector
from mulligan.projections.rows import STORED, SUMMARIES, USAGE, Rows, read_rows
from mulligan.projections.usage import ModelUsage, RunUsage, total
from mulligan.projections.verify import problems_of
from mulligan.schemas.plan import CodeRef, FunctionPlan, NodePlan
from mulligan.testing.given import plan_of
from mulligan.testing.in_memory import InMemory

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


def world(runs: int, partitions: int = 1) -> tuple[InMemory, MemoryEventStore]:
    store = MemoryEventStore(lambda: 1_000, partitions=partitions)
    made = InMemory(code={"steps:one": lambda: 1}, meddle=lambda _: store)
    for number in range(runs):
        made.run(plan_of(ONE), run=f"run{number}")
    return made, store


def raw(store: MemoryEventStore) -> list[dict[str, bytes]]:
    parts = range(store.partitions())
    return [store.rows(rows.name, part) for rows in STORED for part in parts]


def test_rebuilt_rows_equal_the_live_ones_byte_for_byte() -> None:
    made, store = world(runs=5, partitions=3)
    following = Projector(store)
    following.catch_up()
    live = raw(store)
    assert sum(map(len, live)) == 5 * len(STORED)

    for partition in range(3):
        assert list(STORED) == following.rebuild(STORED, partition)

    assert raw(store) == live
    made.run(plan_of(ONE), run="later")
    assert following.catch_up() > 0
    assert {row.run for row in read_rows(store, SUMMARIES)} == {
        "later", *(f"run{number}" for number in range(5))
    }  # fmt: skip


def test_what_was_spoiled_is_right_again_after_a_rebuild() -> None:
    _, store = world(runs=2)
    following = Projector(store)
    following.catch_up()
    live = raw(store)
    checkpoint = store.checkpoint("run", 0)
    store.commit_rows(
        "run", 0, expected=checkpoint, checkpoint=checkpoint, rows={"run0": b"{}", "ghost": b"{}"}
    )

    following.rebuild([SUMMARIES], 0)

    assert raw(store) == live


def test_one_that_fell_behind_a_trim_says_so_and_rebuilds() -> None:
    made, store = world(runs=3)
    Projector(store).catch_up()
    for rows in STORED:
        store._followers.pop((rows.name, 0))  # idle for too long
    for number in range(3):
        made.run(plan_of(ONE), run=f"missed{number}")
    store.trim_feed(0, keep=1, idle_ms=1)

    told: list[str] = []
    Projector(store, told.append).catch_up()

    assert len(told) == len(STORED)
    assert "rebuilt from the runs" in told[0]
    assert len(read_rows(store, SUMMARIES)) == 6
    assert all(row.status == "completed" for row in read_rows(store, SUMMARIES))
    assert Projector(store, told.append).catch_up() == 0
    assert len(told) == len(STORED), "once"


def test_a_projector_with_nothing_to_do_still_counts_as_a_follower() -> None:
    """What comes after a quiet time is not trimmed before it has looked."""
    now_ms = [1_000]
    store = MemoryEventStore(lambda: now_ms[0])
    made = InMemory(code={"steps:one": lambda: 1}, meddle=lambda _: store)
    made.run(plan_of(ONE), run="run0")
    told: list[str] = []
    following = Projector(store, told.append)
    following.catch_up()
    now_ms[0] += 10_000
    for _ in range(SAY_EVERY_ROUNDS):
        assert following.catch_up() == 0
    now_ms[0] += 5_000
    made.run(plan_of(ONE), run="run1")

    store.trim_feed(0, keep=1, idle_ms=9_000)

    assert following.catch_up() > 0
    assert told == []


class Interrupted(MemoryEventStore):
    """A store on which something happens right after the first commit of rebuilt rows."""

    def __init__(self) -> None:
        super().__init__(lambda: 1_000)
        self.then: Any = None

    def commit_rows(
        self,
        projection: str,
        partition: int,
        *,
        expected: str,
        checkpoint: str,
        rows: Mapping[str, bytes],
    ) -> bool:
        done = super().commit_rows(
            projection, partition, expected=expected, checkpoint=checkpoint, rows=rows
        )
        if projection.endswith("~rebuilt") and self.then is not None:
            then, self.then = self.then, None
            then()
        return done


def interrupted(runs: int) -> tuple[InMemory, Interrupted]:
    store = Interrupted()
    made = InMemory(code={"steps:one": lambda: 1}, meddle=lambda _: store)
    for number in range(runs):
        made.run(plan_of(ONE), run=f"run{number}")
    Projector(store).catch_up()
    return made, store


def test_of_two_rebuilds_the_later_one_takes_over() -> None:
    _, store = interrupted(3)
    live = raw(store)
    later: list[list[Rows]] = []
    store.then = lambda: later.append(Projector(store).rebuild([SUMMARIES], 0))

    assert Projector(store).rebuild(STORED, 0) == [USAGE], "what nobody took over is rebuilt"
    assert later == [[SUMMARIES]]
    assert raw(store) == live


def test_of_two_that_fell_behind_one_rebuilds_and_the_other_waits_for_it() -> None:
    """Whoever began later goes on; the other neither ends nor begins again at once."""
    made, store = interrupted(2)
    store._followers.clear()  # idle for too long
    made.run(plan_of(ONE), run="missed")
    store.trim_feed(0, keep=1, idle_ms=1)
    begun: list[str] = []
    store.then = lambda: begun.append(other_begins(store))

    told: list[str] = []
    now_s = [1_000.0]
    first = Projector(store, told.append, lambda: now_s[0])
    first.catch_up()
    now_s[0] += PATIENCE_S - 1
    first.catch_up()

    assert "another rebuild of 'run' has taken over" in told[1]
    assert store.checkpoint("run~rebuilt", 0) == begun[0], "it is left alone"
    assert {row.run for row in read_rows(store, USAGE)} == {"run0", "run1", "missed"}

    now_s[0] += 2  # the other has died
    first.catch_up()
    assert {row.run for row in read_rows(store, SUMMARIES)} == {"run0", "run1", "missed"}


def other_begins(store: MemoryEventStore) -> str:
    store.drop_rows("run~rebuilt", 0)
    store.commit_rows("run~rebuilt", 0, expected="0", checkpoint="0-7", rows={})
    return "0-7"


def test_runs_that_move_during_a_rebuild_are_caught_up_before_the_switch() -> None:
    made, store = interrupted(2)
    store.then = lambda: made.run(plan_of(ONE), run="during")

    assert Projector(store).rebuild([SUMMARIES], 0)

    (during,) = [row for row in read_rows(store, SUMMARIES) if row.run == "during"]
    assert during.status == "completed"
    assert store.checkpoint("run", 0) == store.feed_end(0)


def test_nothing_is_trimmed_that_a_rebuild_still_needs() -> None:
    made, store = interrupted(2)

    def meanwhile() -> None:
        made.run(plan_of(ONE), run="during")
        Projector(store).catch_up()
        assert store.trim_feed(0, keep=1, idle_ms=60_000) == 0

    store.then = meanwhile
    assert Projector(store).rebuild([SUMMARIES], 0)
    assert len(read_rows(store, SUMMARIES)) == 3


def test_totals_add_up_and_unreported_cost_is_not_zero() -> None:
    one = RunUsage(
        run="a",
        models={
            "m": ModelUsage(requests=2, unknown=1, prompt_tokens=5, cost_usd=0.5),
            "x": ModelUsage(requests=1),
        },
    )
    two = RunUsage(run="b", models={"m": ModelUsage(requests=1, completion_tokens=7)})

    assert total(usage.models for usage in (one, two)) == {
        "m": ModelUsage(requests=3, unknown=1, prompt_tokens=5, completion_tokens=7, cost_usd=0.5),
        "x": ModelUsage(requests=1),
    }
    assert USAGE.name == "usage"


# --- What this code can't read --------------------------------------------------------------------

LATE = (NewEvent(ToolSucceeded(call_id="one.1.1", result=Payload.of(1))),)
NEWER = b'{"id":"x.0","type":"RunTeleported","data":{}}'


def spoil(store: MemoryEventStore, run: str, raw: bytes = NEWER, at: int | None = None) -> None:
    """Another writer's event: at the end, or in the place of the one at the version `at`."""
    events = store._runs[run].events
    if at is None:
        events.append((1_000, raw))
    else:
        events[at - 1] = (1_000, raw)


@pytest.mark.parametrize("raw", [NEWER, b"", b"\xff\xfe", b"[]"])
@pytest.mark.parametrize("at", [1, 3])
def test_a_run_that_can_not_be_read_holds_up_no_other(raw: bytes, at: int) -> None:
    """It keeps the row of what is before, says why it ends there, and is told of once."""
    _, store = world(runs=3)
    spoil(store, "run1", raw, at)
    told: list[str] = []
    following = Projector(store, told.append)

    assert following.catch_up() > 0

    rows = {row.run: row for row in read_rows(store, SUMMARIES)}
    assert [rows["run0"].status, rows["run2"].status] == ["completed"] * 2
    assert [rows["run0"].unreadable, rows["run2"].unreadable] == [None] * 2
    assert rows["run1"].version == at - 1
    assert f"event {at}" in rows["run1"].unreadable
    assert len(told) == 1
    assert "'run1'" in told[0]
    assert {row.run for row in read_rows(store, USAGE)} == set(rows)
    live = store.rows("run", 0)
    assert following.rebuild([SUMMARIES], 0)
    assert live == store.rows("run", 0)
    assert len(told) == 1


def test_a_damaged_fact_that_a_row_needs_ends_it_and_changes_nothing() -> None:
    _, store = world(runs=1)
    damaged = b'{"id":"x.0","type":"NodeFailed","data":{"code":7}}'
    kinds = [event.type for event in store.read("run0")]
    at = kinds.index("NodeCompleted") + 1
    spoil(store, "run0", damaged, at)
    told: list[str] = []

    Projector(store, told.append).catch_up()

    (row,) = read_rows(store, SUMMARIES)
    assert (row.version, row.nodes, row.counts) == (at - 1, {}, {})
    assert f"event {at}" in row.unreadable
    assert told == [f"skipped: {row.unreadable}"]
    assert [one.unreadable for one in read_rows(store, USAGE)] == [None], "it shows no nodes"


def test_what_an_older_code_could_not_read_is_read_by_a_newer_one() -> None:
    """Without another event of the run: its row is looked at again when it is shown."""
    _, store = world(runs=1)
    good = list(store._runs["run0"].events)
    spoil(store, "run0", at=2)
    Projector(store).catch_up()
    assert read_rows(store, SUMMARIES)[0].status == "queued"

    store._runs["run0"].events[:] = good

    (row,) = read_rows(store, SUMMARIES)
    assert (row.status, row.unreadable, row.version) == ("completed", None, len(good))
    found = problems_of(store, "run0", store.read("run0"))
    assert "fold_differs" not in {one.invariant for one in found}


def test_an_older_code_keeps_the_row_of_a_newer_one() -> None:
    _, store = world(runs=1)
    Projector(store).catch_up()
    (before,) = read_rows(store, SUMMARIES)
    spoil(store, "run0", at=before.version)
    store.append(Append(run="run0", op="late", writer=AsFact("late", receipt=True), events=LATE))

    Projector(store).catch_up()

    (row,) = read_rows(store, SUMMARIES)
    assert (row.status, row.version) == ("completed", before.version)
    assert f"event {before.version}" in row.unreadable


def test_a_row_of_another_shape_is_folded_anew() -> None:
    _, store = world(runs=2)
    following = Projector(store)
    following.catch_up()
    at = store.checkpoint("run", 0)
    for spoilt in (b"{}", b"\xff", b'{"run": 7}'):
        rows = {"run0": spoilt}
        assert store.commit_rows("run", 0, expected=at, checkpoint=at, rows=rows)

        assert [row.status for row in read_rows(store, SUMMARIES)] == ["completed"] * 2
