"""What the log of requests must be, beside the requests that a server received."""

from __future__ import annotations

from mulligan.events.envelope import Envelope
from mulligan.events.facts import Fact, ModelInterrupted, ModelRequested
from mulligan.testing.accounting import unaccounted
from mulligan.testing.scripted_model import ReceivedRequest


def received(*names: str) -> list[ReceivedRequest]:
    return [
        ReceivedRequest(time="", path="", headers={"x-mulligan-request": name}, body={})
        for name in names
    ]


def history(*facts: Fact) -> list[Envelope]:
    return [
        Envelope(id=f"e{n}", run="run", version=n, time_ms=0, data=fact)
        for n, fact in enumerate(facts, start=1)
    ]


def asked(name: str) -> ModelRequested:
    return ModelRequested(
        request_id=name, invocation="a", turn=1, mode="tool", model="m", digest=""
    )


def lost(name: str) -> ModelInterrupted:
    return ModelInterrupted(request_id=name, invocation="a")


def test_what_was_sent_and_logged_is_accounted_for_over_all_runs() -> None:
    repair = asked("a.overseer.1#1")
    logs = [history(asked("a#1"), asked("a#2"), repair), history(asked("a#1"))]

    assert [] == unaccounted(received("a#1", "a.overseer.1#1", "a#2", "a#1"), logs)


def test_a_request_without_an_intent_is_found() -> None:
    assert ["a#1 was sent without an intent"] == unaccounted(
        received("a#1", "a#1"), [history(asked("a#1"))]
    )


def test_an_intent_that_was_not_sent_needs_a_lost_worker() -> None:
    (problem,) = unaccounted([], [history(asked("a#1"))])

    assert "a#1 was logged" in problem
    assert [] == unaccounted([], [history(asked("a#1"), lost("a#1"))])
    assert [] == unaccounted(received("a#1"), [history(asked("a#1"), lost("a#1"))])


def test_requests_of_others_do_not_count() -> None:
    assert [] == unaccounted([ReceivedRequest(time="", path="", headers={}, body={})], [])
