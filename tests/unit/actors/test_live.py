"""Live output while requests are under way: cheap, in order, and never a run's trouble."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from mulligan.actors.live import LiveOutput
from mulligan.errors import StoreUnavailable
from mulligan.events.deltas import Delta
from mulligan.events.memory_deltas import MemoryDeltas
from mulligan.providers.port import ModelRequest, Piece
from mulligan.testing.waiting import until

REQUEST = ModelRequest(
    request_id="collect.2.1#3", model="m", messages=(), node="collect", attempt=2
)


class Watched(MemoryDeltas):
    """Counts what is asked of it, and fails if told to."""

    def __init__(self, *, away: bool = False) -> None:
        super().__init__()
        self.away = away
        self.looked = 0
        self.published: list[Delta] = []

    def listened(self, runs: Iterable[str]) -> set[str]:
        self.looked += 1
        if self.away:
            raise StoreUnavailable("away")
        return super().listened(runs)

    def publish(self, delta: Delta) -> None:
        self.published.append(delta)
        if self.away:
            raise StoreUnavailable("away")
        super().publish(delta)


def test_all_of_a_response_is_heard_labelled_by_its_attempt() -> None:
    deltas = Watched()
    live = LiveOutput(deltas)
    reader = deltas.subscribe("run")
    with live.hearing("run", REQUEST) as hear:
        assert hear is not None
        for word in ("one ", "two ", "three"):
            hear(Piece(word))
        hear(Piece('{"q": "canary"}', "search"))
        hear(Piece('{"output"', "submit_output"))
        hear(Piece(": 1}", "submit_output"))
    live.close()

    heard = reader.heard(0)
    labels = {(one.run, one.node, one.invocation, one.attempt, one.request_id) for one in heard}
    assert labels == {("run", "collect", "collect.2.1", 2, "collect.2.1#3")}
    assert "".join(one.text for one in heard if one.kind == "text") == "one two three"
    assert "".join(one.text for one in heard if one.kind == "output") == '{"output": 1}'
    for kind in ("text", "output"):
        place = 0
        for one in heard:
            if one.kind == kind:
                assert one.offset == place
                place += len(one.text)


def test_it_is_heard_while_the_response_goes_on() -> None:
    deltas = Watched()
    live = LiveOutput(deltas)
    reader = deltas.subscribe("run")
    with live.hearing("run", REQUEST) as hear:
        assert hear is not None
        hear(Piece("so far"))
        assert [one.text for one in reader.heard(10_000)] == ["so far"]
        hear(Piece(", and on"))
        assert [(one.text, one.offset) for one in reader.heard(10_000)] == [(", and on", 6)]
    live.close()


def test_nothing_is_published_unless_somebody_listens() -> None:
    deltas = Watched()
    live = LiveOutput(deltas)
    for _ in range(50):
        with live.hearing("run", REQUEST) as hear:
            assert hear is not None
            hear(Piece("canary"))
    live.close()
    assert deltas.published == []
    assert deltas.looked <= 3, "the server was asked about listeners for every request"


def test_many_pieces_go_out_in_few_messages() -> None:
    deltas = Watched()
    live = LiveOutput(deltas)
    reader = deltas.subscribe("run")
    with live.hearing("run", REQUEST) as hear:
        assert hear is not None
        for _ in range(10_000):
            hear(Piece("x"))
    live.close()
    assert sum(len(one.text) for one in reader.heard(0)) == 10_000
    assert len(deltas.published) < 100


def test_a_server_that_fails_is_left_alone_and_the_run_goes_on() -> None:
    deltas = Watched(away=True)
    live = LiveOutput(deltas)
    deltas.subscribe("run")
    for _ in range(20):
        with live.hearing("run", REQUEST) as hear:
            assert hear is not None
            hear(Piece("canary"))
    live.close()
    assert deltas.looked == 1
    assert deltas.published == []


def test_a_publication_that_fails_hurts_nobody() -> None:
    deltas = Watched()
    live = LiveOutput(deltas)
    deltas.subscribe("run")
    with live.hearing("run", REQUEST) as hear:
        assert hear is not None
        hear(Piece("one"))
        until(lambda: len(deltas.published) == 1, 10.0)
        deltas.away = True
        for number in range(20):
            hear(Piece(str(number)))
            until(lambda: len(deltas.published) == 2, 10.0)
    live.close()
    assert len(deltas.published) == 2


def test_a_slow_server_does_not_hold_up_who_reads_the_wire() -> None:
    held = threading.Event()

    class Slow(MemoryDeltas):
        def listened(self, runs: Iterable[str]) -> set[str]:
            assert held.wait(30.0)
            return set()

    live = LiveOutput(Slow())
    with live.hearing("run", REQUEST) as hear:
        assert hear is not None
        for _ in range(1_000):
            hear(Piece("x"))
        held.set()
    live.close()


def test_an_error_of_the_request_passes() -> None:
    live = LiveOutput(MemoryDeltas())
    with pytest.raises(LookupError), live.hearing("run", REQUEST):
        raise LookupError
    live.close()


def test_without_a_channel_nothing_is_heard() -> None:
    with LiveOutput(None).hearing("run", REQUEST) as hear:
        assert hear is None
