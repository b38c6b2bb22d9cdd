"""Events as they come: in order, once each, resumable, with gaps told."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter

import pytest

from mulligan.events.deltas import Delta
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    Fact,
    ModelRequested,
    RunCancelled,
    RunCancelRequested,
    RunStarted,
)
from mulligan.events.keys import Keys
from mulligan.events.store import Append, ByVersion
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until
from mulligan.web.server import allow_connections
from tests.http.conftest import Api
from tests.http.sse import Record, Stream


@pytest.fixture
def run(api: Api) -> str:
    return brewed(api)


LONG = RunCancelRequested(reason="x" * 8_000)


def brewed(api: Api) -> str:
    """A run that nobody works."""
    told = api.post("/runs", {"workflow": "tea", "input": {"kind": "green"}}, 202)
    return str(told["run"])


def say(api: Api, run: str, *said: Fact, closed: bool = False) -> None:
    """Let these be a run's next events."""
    row = api.client.store.row(run)
    assert row is not None
    api.client.store.append(
        Append(
            run=run,
            op=secrets.token_hex(8),
            writer=ByVersion(row.version),
            events=tuple(NewEvent(one) for one in said),
            phase="closed" if closed else None,
        )
    )


def versions(records: list[Record]) -> list[int]:
    return [one.data["version"] for one in records]


def test_a_run_is_followed_to_its_end(api: Api, run: str) -> None:
    with Stream(api.port, f"/runs/{run}/events") as stream:
        assert stream.status == 200
        (first,) = stream.take(1)
        assert (first.event, first.data["type"]) == ("message", "RunRequested")
        for _ in range(3):
            say(api, run, RunStarted(), RunStarted())
        say(api, run, RunCancelled(), closed=True)
        rest = list(stream.records())
    assert versions(rest[:-1]) == [2, 3, 4, 5, 6, 7, 8]
    assert (rest[-1].event, rest[-1].data) == ("end", {"type": "end", "run": run, "version": 8})

    again = Stream(api.port, f"/runs/{run}/events", Last_Event_ID=str(rest[-2].id))
    assert again.status == 204, "so that a browser connects no more"
    again.close()


def test_who_comes_again_gets_what_is_missing_and_nothing_twice(api: Api, run: str) -> None:
    for _ in range(5):
        say(api, run, RunStarted())
    with Stream(api.port, f"/runs/{run}/events") as stream:
        seen = stream.take(3)
    say(api, run, RunStarted())
    with Stream(api.port, f"/runs/{run}/events", Last_Event_ID=str(seen[-1].id)) as stream:
        rest = stream.take(4)
        say(api, run, RunStarted())
        rest += stream.take(1)
    assert versions([*seen, *rest]) == list(range(1, 9))
    with Stream(api.port, f"/runs/{run}/events?after=6&follow=false") as stream:
        assert versions(list(stream.records())) == [7, 8, 8]


def test_an_id_that_is_none_and_a_run_that_is_none_are_refused(api: Api, run: str) -> None:
    bad = {"headers": {"Last-Event-ID": "nonsense"}}
    assert api.refusal("GET", f"/runs/{run}/events", **bad) == (422, "invalid_input")
    assert api.refusal("GET", "/events", **bad) == (422, "invalid_input")
    for place in (f"0={1 << 63}-0", f"0=1-{1 << 64}", f"0={(1 << 64) - 1}-{(1 << 64) - 1}"):
        bad = {"headers": {"Last-Event-ID": place}}
        assert api.refusal("GET", "/events?follow=false", **bad) == (422, "invalid_input")
    assert api.refusal("GET", "/runs/nobody/events") == (404, "run_unknown")


def test_a_run_whose_server_was_set_back_begins_anew(
    api: Api, run: str, server: ValkeyServer
) -> None:
    for _ in range(3):
        say(api, run, RunStarted())
    with Stream(api.port, f"/runs/{run}/events") as open_stream:
        seen = open_stream.take(4)
        with server.client() as connection:
            connection.xdel(Keys(0).run(run), "4-0")
            newest = api.client.store.feed_end(0)
            connection.xdel(Keys(0).feed, newest)
            connection.hincrby(Keys(0).meta, "nothing", 1)
        told = open_stream.take(4)
        assert told[0].event == "run_set_back"
        assert told[0].data == {"type": "run_set_back", "run": run, "version": 4}
        assert versions(told[1:]) == [1, 2, 3]
    with Stream(api.port, f"/runs/{run}/events", Last_Event_ID=str(seen[-1].id)) as stream:
        assert [one.event for one in stream.take(2)] == ["run_set_back", "message"]


def test_all_runs_are_followed_and_resumed(api: Api) -> None:
    with Stream(api.port, "/events?start=now") as stream:
        first = brewed(api)
        seen = stream.take(1)
        say(api, first, RunStarted(), RunStarted(), RunStarted())
        seen += stream.take(2)
    say(api, first, RunStarted())
    with Stream(api.port, "/events", Last_Event_ID=str(seen[-1].id)) as stream:
        seen += stream.take(2)
        second = brewed(api)
        seen += stream.take(1)
    told = [(one.data["run"], one.data["version"]) for one in seen]
    assert told == [*((first, version) for version in range(1, 6)), (second, 1)]
    with Stream(api.port, "/events?follow=false") as stream:
        everything = list(stream.records())
    assert everything[-1].event == "end"
    assert [(one.data["run"], one.data["version"]) for one in everything[-7:-1]] == told


def test_what_was_trimmed_is_a_record(api: Api, run: str) -> None:
    with Stream(api.port, "/events?follow=false") as stream:
        place = next(stream.records()).id
    for _ in range(3):
        say(api, run, RunStarted())
    api.client.store.trim_feed(0, keep=2, idle_ms=0)
    with Stream(api.port, "/events?follow=false", Last_Event_ID=str(place)) as stream:
        gap, *rest = list(stream.records())
    assert (gap.event, gap.data["type"], gap.data["partition"]) == ("gap", "gap", 0)
    assert versions(rest[:-1]) == [3, 4]
    with Stream(api.port, "/events?follow=false", Last_Event_ID=str(gap.id)) as stream:
        assert [one.event for one in stream.records()] == ["message", "message", "end"]


def test_a_feed_that_was_set_back_is_told(api: Api, run: str, server: ValkeyServer) -> None:
    with Stream(api.port, "/events?follow=false") as stream:
        *seen, _ = list(stream.records())
    with server.client() as connection:
        connection.xdel(Keys(0).feed, api.client.store.feed_end(0))
    with Stream(api.port, "/events?follow=false", Last_Event_ID=str(seen[-1].id)) as stream:
        told = [one.event for one in stream.records()]
    assert told == ["set_back", *(one.event for one in seen[:-1]), "end"]


def test_what_models_say_is_there_for_who_asks(api: Api, run: str) -> None:
    request = ModelRequested(
        request_id="brew#1",
        invocation="brew",
        turn=1,
        mode="tool",
        model="scripted/any",
        digest="",
    )
    said = Delta(
        run=run,
        node="brew",
        invocation="brew",
        attempt=1,
        request_id="brew#1",
        kind="text",
        offset=0,
        text="steep",
    )
    live = Stream(api.port, f"/runs/{run}/events?deltas=true")
    plain = Stream(api.port, f"/runs/{run}/events")
    with live, plain:
        until(lambda: api.client.deltas.listened([run]), 20)
        say(api, run, request)
        api.client.deltas.publish(said)
        events = live.take(3)
        say(api, run, RunCancelled(), closed=True)
        assert [one.event for one in events] == ["message", "message", "delta"]
        assert (events[-1].id, events[-1].data["text"]) == (None, "steep")
        assert "steep" not in str(list(plain.records()))
        assert [one.event for one in live.records()] == ["message", "end"]
    until(lambda: not api.client.deltas.listened([run]), 20)


def test_who_takes_nothing_holds_up_nobody_and_goes_on_from_the_log(
    api: Api, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow client falls out of what is kept for all, and misses nothing."""
    monkeypatch.setattr("mulligan.web.rings.MOST_BYTES", 4_000)
    events = f"/runs/{run}/events"
    with Stream(api.port, events, takes=4_096) as slow, Stream(api.port, events) as quick:
        for _ in range(6):
            say(api, run, *[LONG] * 100)
        assert versions(quick.take(601)) == list(range(1, 602))
        assert versions(slow.take(601)) == list(range(1, 602))


def test_a_client_that_takes_nothing_for_long_is_cut_off(
    api: Api, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.web.sse.STALL_S", 0.2)
    tails = api.app.state.surroundings.tails
    with Stream(api.port, f"/runs/{run}/events", takes=4_096) as stream:
        until(lambda: tails.count == 1, 20)

        def cut_off() -> bool:
            say(api, run, *[LONG] * 20)
            return bool(tails.count == 0)

        until(cut_off, 20)
        with pytest.raises((ConnectionError, ValueError, AssertionError)):
            stream.take(100_000)


TAILS = 1_000
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def test_a_thousand_tails_at_once(api: Api, server: ValkeyServer) -> None:
    """All are told, and the log's server notices one reader."""
    allow_connections()
    runs = [brewed(api) for _ in range(10)]
    tails = api.app.state.surroundings.tails

    async def tailed() -> Counter[bytes]:
        opened = [await asyncio.open_connection("127.0.0.1", api.port) for _ in range(TAILS)]
        try:
            return await told(opened)
        finally:
            for _, writer in opened:
                writer.close()

    async def told(opened: list[Connection]) -> Counter[bytes]:
        heads = [f"GET /runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n" for run in runs]
        for place, (_, writer) in enumerate(opened):
            writer.write(heads[place % len(heads)].encode())
        await asyncio.gather(*(reader.readuntil(b"RunRequested") for reader, _ in opened))
        with server.client() as connection:
            assert len(connection.client_list()) < 30
        for run in runs:
            say(api, run, RunStarted(), RunCancelled(), closed=True)
        got = await asyncio.gather(*(reader.readuntil(b"event: end") for reader, _ in opened))
        return Counter(kind for one in got for kind in re.findall(rb'"type":"(Run\w+)"', one))

    assert asyncio.run(tailed()) == {b"RunStarted": TAILS, b"RunCancelled": TAILS}
    until(lambda: tails.count == 0, 20)
