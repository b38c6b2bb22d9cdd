"""`list`, `usage`, `rebuild` and `tail` on stored runs, and a feed that was trimmed (a server)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner, Result

from mulligan.cli import main
from mulligan.client import Client
from mulligan.commands import list_runs
from mulligan.commands.published import published_text
from mulligan.commands.tail import _of_all
from mulligan.errors import FeedTrimmed, RunSetBack
from mulligan.events.envelope import Envelope
from mulligan.events.keys import Keys
from mulligan.feed import SetBack
from mulligan.projections import run_list
from mulligan.projections.projector import Projector
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer

pytestmark = pytest.mark.server

FLOW = """
name: {name}
nodes:
  - {{id: only, kind: function, call: "{name}_flow:only"}}
"""


@pytest.fixture
def client(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with server.client() as connection:
        connection.flushall()
    monkeypatch.setenv("MULLIGAN_REDIS_URL", server.url)
    with Client(Settings(redis_url=server.url)) as client:
        yield client


@pytest.fixture
def runs(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Three runs of two workflows, one of them cancelling."""
    for name in ("brief", "report"):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / f"{name}_flow.py").write_text("def only():\n    return 1\n")
        (tmp_path / f"{name}.yaml").write_text(FLOW.format(name=name))
    names = [
        client.enqueue(str(tmp_path / "brief.yaml"), run_id="b1", tags=("tea", "daily")),
        client.enqueue(str(tmp_path / "brief.yaml"), run_id="b2", tags=("tea",)),
        client.enqueue(str(tmp_path / "report.yaml"), run_id="r1"),
    ]
    client.cancel("b2")
    yield names
    for name in ("brief_flow", "report_flow"):
        sys.modules.pop(name)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def told(schema: str, *arguments: str) -> dict[str, Any]:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(value, json.loads(published_text(schema)))
    return value


def listed(*filters: str) -> set[str]:
    return {row["run"] for row in told("list", "list", *filters)["runs"]}


def test_list_filters_by_status_workflow_tags_and_time(runs: list[str]) -> None:
    assert listed() == {"b1", "b2", "r1"}
    assert listed("--status", "queued") == {"b1", "r1"}
    assert listed("--status", "queued", "--status", "cancelling") == {"b1", "b2", "r1"}
    assert listed("--workflow", "report") == {"r1"}
    assert listed("--tag", "tea") == {"b1", "b2"}
    assert listed("--tag", "tea", "--tag", "daily") == {"b1"}
    assert listed("--since", "1h") == {"b1", "b2", "r1"}
    assert listed("--until", "1h") == set()
    assert listed("--since", "2026-01-01", "--until", "2200-01-01T00:00") == {"b1", "b2", "r1"}
    cut = told("list", "list", "--limit", "2")
    assert (len(cut["runs"]), cut["left_off"]) == (2, 1)
    assert "1 older" in call("list", "--limit", "2").output


@pytest.mark.parametrize("wrong", [("--since", "yesterday"), ("--status", "broken")])
def test_list_refuses_what_it_does_not_know(client: Client, wrong: tuple[str, str]) -> None:
    assert call("list", *wrong).exit_code == 2


def test_usage_of_all_runs_is_summed(runs: list[str]) -> None:
    assert told("usage-totals", "usage") == {
        "kind": "usage-totals", "runs": 3, "models": {}, "overseer": {}, "unreadable": []
    }  # fmt: skip
    assert told("usage", "usage", "b1")["run"] == "b1"


def test_a_list_tells_how_far_its_rows_lagged(
    runs: list[str], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UI: lag is shown; the rows catch up by themselves, so it is that of before."""
    first, again = told("list", "list"), told("list", "list")
    assert [(one["caught_up"], one["behind"]) for one in (first, again)] == [(4, 0), (0, 0)]
    assert "behind" not in call("list").stderr, "a few entries are not worth a word"

    monkeypatch.setattr(list_runs, "MANY_ENTRIES", 1)
    client.cancel("b1")
    shown = call("status")
    assert "1 feed entries behind and have been caught up" in shown.stderr
    assert "mulligan projector" in shown.stderr


def test_what_comes_while_a_list_is_made_is_counted(
    runs: list[str], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Overtaken(Projector):
        def catch_up(self, wait_ms: int = 0) -> int:
            count = super().catch_up(wait_ms)
            client.cancel("r1")
            return count

    monkeypatch.setattr(run_list, "Projector", Overtaken)

    assert "1 feed entries have come since" in call("list").stderr
    assert told("list", "list", "--status", "cancelling")["behind"] == 0, "r1 was asked before"


def test_rebuild_makes_the_same_rows(runs: list[str], client: Client) -> None:
    before = listed()
    rows = client.store.rows("run", 0)
    assert told("rebuild", "rebuild")["rows"] == {"run": 3, "usage": 3}
    assert client.store.rows("run", 0) == rows
    assert told("rebuild", "rebuild", "usage")["rows"] == {"usage": 3}
    assert listed() == before
    assert call("rebuild", "nonsense").exit_code == 2


def test_a_gap_is_a_record_of_tail_and_lists_rebuild(runs: list[str], client: Client) -> None:
    """UI: a gap by trimming is an explicit record."""
    client.store.trim_feed(0, keep=2, idle_ms=0)
    with pytest.raises(FeedTrimmed):
        client.store.feed(0)

    lines = [json.loads(line) for line in call("tail").stdout.splitlines()]

    assert [line["type"] for line in lines] == ["gap", "RunRequested", "RunCancelRequested"]
    jsonschema.validate(lines[0], json.loads(published_text("gap")))
    findings = told("doctor", "doctor")["findings"]
    (projections,) = [one for one in findings if one["matter"] == "projections"]
    assert "the feed was trimmed" in projections["detail"]
    shown = call("list")
    assert "rebuilt from the runs" in shown.stderr
    assert all(run in shown.stdout for run in runs)
    assert "rebuilt" not in call("list").stderr


# --- Runs that this version can't read ------------------------------------------------------------


def spoil(client: Client, server: ValkeyServer, run: str) -> None:
    """A newer version's event in the place of the run's first."""
    key = Keys(0).run(run)
    newer = b'{"id":"x.0","type":"RunTeleported","data":{}}'
    with server.client() as connection:
        connection.delete(key)
        connection.xadd(key, {"t": 1, "d": newer}, id="1-0")


def test_a_run_that_can_not_be_read_is_shown_as_such_and_holds_up_no_other(
    runs: list[str], client: Client, server: ValkeyServer
) -> None:
    spoil(client, server, "b1")

    shown = call("list")
    assert shown.exit_code == 0
    assert all(run in shown.stdout for run in runs)
    assert "(unreadable)" in shown.stdout
    assert "run 'b1', event 1: unknown type 'RunTeleported'" in shown.stderr
    (row,) = [row for row in told("list", "list")["runs"] if "unreadable" in row]
    assert row["run"] == "b1"
    assert told("usage-totals", "usage")["unreadable"] == ["b1"]
    assert told("rebuild", "rebuild")["rows"] == {"run": 3, "usage": 3}
    assert call("projector", "--once").exit_code == 0
    assert call("redrive").exit_code == 0

    verified = call("verify", "--json")
    assert verified.exit_code == 6
    problems = json.loads(verified.stdout)["problems"]
    assert list(problems) == ["b1"]
    assert "upgrade this process" in problems["b1"][0]

    lines = [json.loads(line) for line in call("tail").stdout.splitlines()]
    assert {line["run"] for line in lines} == {"b1", "b2", "r1"}
    (unreadable,) = [line for line in lines if line["type"] == "unreadable"]
    jsonschema.validate(unreadable, json.loads(published_text("unreadable")))
    assert (unreadable["run"], unreadable["after"], unreadable["through"]) == ("b1", 0, 1)
    assert call("tail", "b1").exit_code == 5


def test_who_follows_a_run_is_told_that_its_server_was_set_back(
    runs: list[str], client: Client, server: ValkeyServer
) -> None:
    followed = client.events("b2", follow=True)
    assert [next(followed).version, next(followed).version] == [1, 2]
    with server.client() as connection:
        connection.xdel(Keys(0).run("b2"), "2-0")

    with pytest.raises(RunSetBack, match="event 2"):
        next(followed)
    ended = call("tail", "b2", "--follow", "--from", "2")
    assert (ended.exit_code, ended.stdout) == (5, "")
    assert "was set back" in ended.stderr


def test_who_follows_all_runs_is_told_that_the_server_was_set_back(
    runs: list[str], client: Client, server: ValkeyServer
) -> None:
    followed = _of_all(client.store, None, follow=True)
    shown = [next(followed) for _ in range(4)]
    newest = client.store.feed_end(0)
    with server.client() as connection:
        connection.xdel(Keys(0).feed, newest)
    client.cancel("b1")

    told = next(followed)
    assert isinstance(told, SetBack)
    assert told.after == newest
    jsonschema.validate(msgspec.to_builtins(told), json.loads(published_text("set-back")))
    again = [next(followed) for _ in range(4)]
    assert again[:3] == shown[:3]
    assert isinstance(again[3], Envelope)
    assert again[3].run == "b1"


def test_a_trim_up_to_what_was_printed_is_no_set_back(runs: list[str], client: Client) -> None:
    followed = _of_all(client.store, None, follow=True)
    for _ in range(2):
        next(followed)
    (last,) = client.store.feed(0)[-1:]
    for _ in range(2):
        next(followed)
    client.cancel("b1")
    client.store.trim_feed(0, keep=1, idle_ms=0)
    with pytest.raises(FeedTrimmed) as gap:
        client.store.feed(0)
    assert gap.value.trimmed == last.id

    following = next(followed)
    assert isinstance(following, Envelope)
    assert following.run == "b1"


NOT_TEXT = "\udcff"


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", NOT_TEXT),
        ("cancel", "b1", "--reason", NOT_TEXT),
        ("deny", "b1", "a.1.1", "--by", NOT_TEXT),
        ("enqueue", "brief", "--input", NOT_TEXT),
        ("list", "--tag", NOT_TEXT),
    ],
)
def test_what_is_no_text_is_refused_in_words(arguments: tuple[str, ...]) -> None:
    refused = call(*arguments)
    assert refused.exit_code == 2
    assert "is not UTF-8 text" in refused.stderr
