"""What a schedule does when it is looked at: fire, skip, catch up, begin its stream anew."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from hypothesis import given as given_that
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mulligan.decisions import schedule
from mulligan.decisions.decision import Release
from mulligan.decisions.schedule import MOST_FACTS, Asked, ScheduleDecision
from mulligan.events.codec import decode, encode
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    Fact,
    ScheduleCreated,
    ScheduleFired,
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleSkipped,
    ScheduleTerms,
)
from mulligan.events.payload import Payload
from mulligan.projections.schedule import MOST_ENTRIES, ScheduleState, evolve

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
BEGIN_MS = int(datetime.fromisoformat("2026-12-07T05:00:00+00:00").timestamp() * 1_000)


class Scheduled:
    """A schedule with a history; nothing happens but what a test says."""

    def __init__(self, cron: str = "0 * * * *", **terms: Any) -> None:
        self.state = ScheduleState(name="s")
        self.now_ms = BEGIN_MS
        self.log: list[Fact] = []
        self.dropped = 0
        self.open_runs: set[str] = set()
        self.happened(
            ScheduleCreated(
                terms=ScheduleTerms(cron=cron, timezone="UTC", workflow="flow", **terms),
                input=Payload.of(None),
            )
        )

    def happened(self, fact: Fact) -> Scheduled:
        raw = encode(NewEvent(fact), id="e", causation=None, correlation=None)
        stored = decode("schedule:s", self.state.version + 1, self.now_ms, raw)
        self.state = evolve(self.state, stored)
        self.log.append(fact)
        return self

    def later(self, ms: int) -> Scheduled:
        self.now_ms += ms
        return self

    def decide(self, asked: Asked | None = None) -> ScheduleDecision:
        decision = schedule.decide(
            self.state, self.now_ms, lambda run: run in self.open_runs, asked
        )
        if decision.begins_anew:
            self.dropped += 1
            self.state = ScheduleState(name="s", version=self.state.version)
        for event in decision.events:
            self.happened(event.data)
        return decision

    def work(self, ask: Callable[[str], Asked] | None = None) -> Release:
        """All that its task's holder does until it lets go."""
        decision = self.decide()
        while decision.ask is not None:
            entry = decision.ask
            assert entry.run is not None
            asked = ask(entry.run) if ask else Asked(run=entry.run, due_ms=entry.due_ms)
            if asked.refused is None:
                self.open_runs.add(entry.run)
            decision = self.decide(asked)
        assert decision.release is not None
        return decision.release

    def told(self) -> list[str]:
        shown = []
        for fact in self.log[1:]:
            match fact:
                case ScheduleFired(run=run):
                    shown.append(f"fired {run}")
                case ScheduleSkipped(reason=reason, count=count):
                    shown.append(f"skipped {count} {reason}")
                case _:
                    shown.append(type(fact).__name__.removeprefix("Schedule"))
        return shown


def test_nothing_is_due_before_its_time() -> None:
    given = Scheduled()
    assert given.work() == Release("timer", HOUR_MS)
    assert given.told() == []


def test_a_moment_fires_once_and_the_intent_comes_first() -> None:
    given = Scheduled().later(HOUR_MS)
    decision = given.decide()
    assert (given.told(), decision.release) == (["fired s@20261207T060000Z"], None)
    assert decision.ask is not None
    assert decision.ask.run == "s@20261207T060000Z"
    # Whoever takes over asks for the same run, and fires nothing else.
    again = given.decide()
    assert again.events == ()
    assert again.ask == decision.ask
    asked = Asked(run="s@20261207T060000Z", due_ms=decision.ask.due_ms)
    assert given.decide(asked).release == Release("timer", HOUR_MS)
    assert given.told() == ["fired s@20261207T060000Z", "RunRequested"]
    assert given.work() == Release("timer", HOUR_MS)


def test_overlap_skips_while_an_earlier_run_goes_on() -> None:
    given = Scheduled().later(HOUR_MS)
    given.work()
    given.later(HOUR_MS).work()
    assert given.told()[-1] == "skipped 1 overlap"
    assert "s@20261207T060000Z" in given.state.entries[-1].detail
    given.open_runs.clear()
    given.later(HOUR_MS).work()
    assert given.told()[-2] == "fired s@20261207T080000Z"


def test_a_run_asked_for_by_a_person_counts_as_overlap() -> None:
    given = Scheduled().happened(ScheduleFired(run="s@k", due_ms=BEGIN_MS, by="ann"))
    assert given.work() == Release("timer", HOUR_MS)
    given.later(HOUR_MS).work()
    assert given.told()[-1] == "skipped 1 overlap"


def test_a_firing_that_a_lost_worker_left_open_is_asked_for_before_anything_else_fires() -> None:
    given = Scheduled().later(HOUR_MS)
    given.decide()
    given.later(HOUR_MS).work()
    assert given.told() == ["fired s@20261207T060000Z", "RunRequested", "skipped 1 overlap"]


def test_overlap_may_be_allowed() -> None:
    given = Scheduled(overlap="allow").later(HOUR_MS)
    given.work()
    given.later(HOUR_MS).work()
    assert given.told()[2:] == ["fired s@20261207T070000Z", "RunRequested"]


def test_a_week_without_workers_starts_one_run_at_most() -> None:
    week = 7 * 24 * 60
    given = Scheduled("* * * * *", catch_up="last", overlap="allow").later(week * MINUTE_MS)
    given.work()
    assert given.told()[:2] == [f"skipped {10_000} missed", "fired s@20261214T050000Z"]
    given = Scheduled("*/5 * * * *", overlap="allow").later(week * MINUTE_MS)
    given.work()
    assert given.told()[:2] == [f"skipped {week // 5 - 1} missed", "fired s@20261214T050000Z"]


def test_catching_up_on_none_skips_what_is_not_on_time() -> None:
    given = Scheduled(catch_up="none").later(3 * HOUR_MS + 5 * MINUTE_MS)
    assert given.work() == Release("timer", 55 * MINUTE_MS)
    assert given.told() == ["skipped 3 missed"]
    assert given.state.entries[-1].from_ms == BEGIN_MS + HOUR_MS
    given = Scheduled(catch_up="none").later(3 * HOUR_MS + 5_000)
    given.work()
    assert given.told() == ["skipped 2 missed", "fired s@20261207T080000Z", "RunRequested"]


def test_catching_up_on_all_has_a_bound() -> None:
    given = Scheduled(catch_up="all", overlap="allow").later(150 * HOUR_MS)
    given.work()
    assert given.told()[0] == "skipped 50 missed"
    fired = [line for line in given.told() if line.startswith("fired")]
    assert len(set(fired)) == len(fired) == 100 == given.told().count("RunRequested")


def test_catching_up_on_all_does_not_overlap_unless_allowed() -> None:
    given = Scheduled(catch_up="all").later(5 * HOUR_MS)
    given.work()
    assert given.told() == ["fired s@20261207T060000Z", "skipped 4 overlap", "RunRequested"]


def test_paused_it_fires_nothing_and_makes_nothing_up() -> None:
    given = Scheduled().happened(SchedulePaused(by="ann")).later(5 * HOUR_MS)
    assert given.work() == Release("wait")
    given.happened(ScheduleResumed(by="ann"))
    assert given.work() == Release("timer", HOUR_MS)
    assert given.told() == ["Paused", "Resumed"]


def test_removed_it_waits_for_ever_and_may_be_created_anew() -> None:
    given = Scheduled().happened(ScheduleRemoved()).later(5 * HOUR_MS)
    assert given.work() == Release("wait")
    given.happened(given.log[0])
    assert given.state.status == "active"
    assert given.work() == Release("timer", HOUR_MS)


def test_terms_replaced_while_paused_stay_paused() -> None:
    given = Scheduled().happened(SchedulePaused())
    assert given.happened(given.log[0]).state.status == "paused"


def test_a_firing_whose_run_is_refused_is_told_with_the_reason() -> None:
    given = Scheduled().later(HOUR_MS)
    given.work(lambda run: Asked(run=run, due_ms=0, refused="unusable", detail="no such module"))
    entry = given.state.entries[-1]
    assert (entry.outcome, entry.reason, entry.detail) == ("skipped", "unusable", "no such module")
    assert given.state.scheduled_run is None


def test_a_stream_of_many_firings_begins_anew_and_forgets_nothing_that_counts() -> None:
    given = Scheduled("* * * * *", overlap="allow")
    for _ in range(MOST_FACTS):
        given.later(MINUTE_MS).work()
        assert given.state.facts <= MOST_FACTS + 5
    assert given.dropped == 2
    fired = [line for line in given.told() if line.startswith("fired")]
    assert len(set(fired)) == len(fired) == MOST_FACTS
    assert len(given.state.entries) == MOST_ENTRIES
    assert given.state.terms is not None
    assert given.state.created_ms == BEGIN_MS


def test_an_open_firing_outlives_any_number_of_others() -> None:
    given = Scheduled().happened(ScheduleFired(run="s@k", due_ms=BEGIN_MS, by="ann"))
    for _ in range(MOST_ENTRIES + 5):
        given.happened(ScheduleSkipped(reason="overlap", due_ms=given.later(HOUR_MS).now_ms))
    decision = given.decide()
    assert decision.ask is not None
    assert decision.ask.run == "s@k"


STEPS = st.lists(
    st.one_of(
        st.integers(1, 200).map(lambda minutes: ("later", minutes)),
        st.sampled_from(["work", "die", "pause", "resume", "ends"]).map(lambda name: (name, 0)),
    ),
    max_size=25,
)


@hypothesis_settings(max_examples=80, deadline=None)
@given_that(STEPS, st.sampled_from(["none", "last", "all"]), st.sampled_from(["skip", "allow"]))
def test_every_moment_is_told_of_at_most_once_whatever_happens(
    steps: list[tuple[str, int]], catch_up: str, overlap: str
) -> None:
    given = Scheduled("*/10 * * * *", catch_up=catch_up, overlap=overlap)
    for name, minutes in steps:
        match name:
            case "later":
                given.later(minutes * MINUTE_MS)
            case "work":
                given.work()
            case "die":
                given.decide()  # what it decided is in the log, nothing came of it
            case "pause" if given.state.status == "active":
                given.happened(SchedulePaused())
            case "resume" if given.state.status == "paused":
                given.happened(ScheduleResumed())
            case "ends":
                given.open_runs.clear()
    given.work()
    fired = [fact for fact in given.log if isinstance(fact, ScheduleFired)]
    assert [fact.due_ms for fact in fired] == sorted({fact.due_ms for fact in fired})
    assert all(entry.outcome != "open" for entry in given.state.entries)
    due = [fact.due_ms for fact in given.log if isinstance(fact, ScheduleFired | ScheduleSkipped)]
    assert due == sorted(set(due))
