"""`mulligan archive`: ended runs in files, read by every reader as before (a server, a worker)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from mulligan.actors import archiver
from mulligan.cli import main
from mulligan.client import Client
from mulligan.commands.published import published_text
from mulligan.errors import ArchiveUnfit, EventUnreadable
from mulligan.events import facts
from mulligan.events.archived_store import ArchivedStore
from mulligan.events.file_archive import FileArchive
from mulligan.events.keys import Keys
from mulligan.events.redis_streams import Streams
from mulligan.projections.projector import Projector
from mulligan.projections.rows import SUMMARIES, USAGE, read_rows
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.stage import Stage, staged

pytestmark = pytest.mark.server

HISTORIES = Path(__file__).parents[1] / "histories"
QUESTION = "tea" * 4_000
"""What comes back of it is a large value."""
LOOK = {"tool_calls": [{"name": "look", "arguments": {"q": QUESTION}}]}
READERS = (
    "status {run} --json",
    "trace {run} --json",
    "chat {run} --json",
    "recovery {run} --json",
    "repair-log {run} --json",
    "usage {run} --json",
    "tail {run}",
    "tail {run} --follow",
    "verify {run} --json",
)
OF_ALL = ("usage --json", "verify --json", "tail")


class Shelf:
    """A server with ended runs, and the folder that they are archived in."""

    def __init__(self, server: ValkeyServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.settings = Settings(redis_url=server.url, data_dir=folder)
        self.client = Client(self.settings)
        self.files = FileArchive(self.settings.archive)

    def call(self, line: str) -> Result:
        env = {"MULLIGAN_REDIS_URL": self.server.url, "MULLIGAN_DATA_DIR": str(self.folder)}
        return CliRunner().invoke(main, line.split(), env=env)

    def read(self, run: str) -> dict[str, Any]:
        """What every reader says of a run."""
        told: dict[str, Any] = {}
        for line in READERS:
            done = self.call(line.format(run=run))
            assert done.exit_code == 0, done.output
            told[line] = done.stdout
        written = self.call(f"workspace {run}")
        assert written.exit_code == 0, written.output
        files = sorted(path for path in (self.folder / "runs" / run).rglob("*") if path.is_file())
        return told | {path.name: path.read_bytes() for path in files}

    def restore(self, name: str) -> None:
        """A recorded run, on the server as it was."""
        lines = [json.loads(one) for one in (HISTORIES / f"{name}.jsonl").read_text().splitlines()]
        keys = Keys(0)
        with self.server.client() as client:
            for one in lines:
                client.xadd(
                    keys.run(name), {"t": one["t"], "d": one["d"]}, id=f"{one['version']}-0"
                )
            last = len(lines)
            client.hset(keys.runs, name, f"{last}|closed|digest||op")
            client.xadd(keys.feed, {"r": name, "v": last, "n": last})

    def keys_of(self, run: str) -> list[str]:
        """Where the server knows of a run."""
        with self.server.client() as client:
            named = [key.decode() for key in client.keys(f"*{run}*")]
            hashes = [key for key in client.keys("*") if client.type(key) == b"hash"]
            within = [key.decode() for key in hashes if _holds(client.hkeys(key), run)]
            return named + within


def _holds(names: list[bytes], run: str) -> bool:
    return any(name.decode().split("/")[0] == run for name in names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where everybody here looks for archived runs."""
    folder = tmp_path_factory.mktemp("shelf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULLIGAN_ARCHIVE_DIR", str(folder / "archive"))
        yield folder


@pytest.fixture(scope="module")
def stage(server: ValkeyServer, folder: Path) -> Iterator[Stage]:
    with server.client() as client:
        client.flushall()
    with staged(server.url, folder) as stage:
        yield stage


@pytest.fixture(scope="module")
def shelf(stage: Stage, server: ValkeyServer, folder: Path) -> Iterator[Shelf]:
    shelf = Shelf(server, folder)
    shelf.restore("accepted")
    yield shelf
    shelf.client.close()


def worked(stage: Stage, turns: list[Any], **options: Any) -> str:
    with ScriptedModel({"turns": turns}) as model:
        run = stage.enqueue(model, **options)
        assert stage.ended(run).status == "completed"
        return run


def test_every_reader_reads_an_archived_run_as_before(stage: Stage, shelf: Shelf) -> None:
    run = worked(stage, [LOOK, {"json": {"n": 1}}], tools=[1])
    before = {one: shelf.read(one) for one in (run, "accepted")}
    of_all = {line: shelf.call(line).stdout for line in OF_ALL}
    listed = json.loads(shelf.call("list --json").stdout)["runs"]
    together = dict(shelf.client.store.read_each({run: 0, "accepted": 3}))
    assert any(not p.inline for p in _payloads(shelf.client.events(run))), "a large value"

    done = shelf.call(f"archive {run} accepted --json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads(published_text("archive")))
    assert (sorted(told["runs"]), told["left"]) == (sorted([run, "accepted"]), {})
    assert shelf.keys_of(run) == [Keys(0).runs]

    assert {one: shelf.read(one) for one in (run, "accepted")} == before
    assert {line: shelf.call(line).stdout for line in OF_ALL} == of_all
    assert json.loads(shelf.call("list --json").stdout)["runs"] == listed
    assert dict(shelf.client.store.read_each({run: 0, "accepted": 3})) == together
    assert shelf.client.result(run) == {"n": 1}
    assert shelf.client.status(run).ended
    Projector(shelf.client.store).catch_up()
    assert shelf.call("rebuild").exit_code == 0
    assert json.loads(shelf.call("list --json").stdout)["runs"] == listed
    assert shelf.keys_of(run) == [Keys(0).runs], "nothing brings it back"


def _payloads(events: Any) -> list[Any]:
    return [p for e in events if isinstance(e.data, facts.ToolSucceeded) for p in [e.data.result]]


def test_an_archived_id_is_taken_and_its_run_can_be_forked(stage: Stage, shelf: Shelf) -> None:
    stage.forget()
    with ScriptedModel({"turns": [LOOK, {"json": {"n": 1}}, {"json": {"n": 2}}]}) as model:
        flow = stage.flow(model, tools=[1])
        run = stage.client.enqueue(flow, {"x": 1}, run_id="order-1")
        assert stage.ended(run).output == {"n": 1}
        asked = [e for e in stage.client.events(run) if isinstance(e.data, facts.ModelRequested)]
        assert shelf.client.archive([run]).runs == [run]

        assert shelf.client.enqueue(flow, {"x": 1}, run_id=run) == run
        assert shelf.client.result(run, timeout_s=5) == {"n": 1}
        other = shelf.call(f"fork {run} --at 1 --run-id {run}")
        assert (other.exit_code, "exists with another input" in other.stderr) == (2, True)
        forked = shelf.client.fork(run, asked[-1].version)
        assert stage.ended(forked).output == {"n": 2}
        assert len(stage.looked) == 1
    for refused in ("resume", "redrive"):
        done = shelf.call(f"{refused} {run}")
        assert (done.exit_code, f"run '{run}' is completed" in done.stderr) == (2, True)
    assert not shelf.client.cancel(run)


def test_only_what_ended_long_enough_ago_is_archived(stage: Stage, shelf: Shelf) -> None:
    run = worked(stage, [{"json": {"n": 1}}])
    going = stage.client.enqueue(stage_flow(stage), delay_ms=3_600_000)

    assert run not in json.loads(shelf.call("archive --json").stdout)["runs"], "ended just now"
    refused = shelf.call(f"archive {going}")
    assert (refused.exit_code, "it has not ended" in refused.stderr) == (2, True)
    assert shelf.call("archive nobody").exit_code == 2
    assert shelf.call(f"archive {run} --older-than 1d").exit_code == 2
    done = json.loads(shelf.call("archive --older-than 2999-01-01 --json").stdout)
    assert run in done["runs"]
    assert going not in (*done["runs"], *done["left"])
    again = json.loads(shelf.call("archive --older-than 2999-01-01 --json").stdout)
    assert again["runs"] == []
    stage.client.cancel(going)


def stage_flow(stage: Stage) -> Any:
    from mulligan.schemas.builder import Workflow

    flow = Workflow("later", model="scripted/m", api_base="http://127.0.0.1:9/v1")
    flow.agent("agent", prompt="Later.", output={"type": "object"})
    return flow


ARCHIVE = """
import os, signal, sys
from mulligan.client import Client
from mulligan.events.archived_store import ArchivedStore
from mulligan.events.archived_store import ArchivedStore
from mulligan.events.file_archive import FileArchive

step, run = sys.argv[1:]

def dying(real, name):
    def call(*given):
        if step == f"before {name}":
            os.kill(os.getpid(), signal.SIGKILL)
        came = real(*given)
        os.kill(os.getpid(), signal.SIGKILL if step == f"after {name}" else 0)
        return came
    return call

FileArchive.keep = dying(FileArchive.keep, "keep")
ArchivedStore.retire = dying(ArchivedStore.retire, "retire")
with Client() as client:
    client.archive([run])
"""


@pytest.mark.parametrize("step", ["before keep", "after keep", "before retire", "after retire"])
def test_killed_between_two_steps_nothing_is_lost_and_the_next_time_it_is_done(
    stage: Stage, shelf: Shelf, step: str
) -> None:
    run = worked(stage, [LOOK, {"json": {"n": 1}}], tools=[1])
    before = shelf.read(run)
    killed = subprocess.run(
        [sys.executable, "-c", ARCHIVE, step, run],
        env=os.environ | {"MULLIGAN_REDIS_URL": shelf.server.url},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL

    row = shelf.client.store.row(run)
    assert row is not None
    assert row.phase == ("archived" if step == "after retire" else "closed")
    assert shelf.read(run) == before
    assert shelf.client.archive([run]).runs == [run]
    assert shelf.keys_of(run) == [Keys(0).runs]
    assert shelf.read(run) == before


def test_what_does_not_read_back_stays(stage: Stage, shelf: Shelf) -> None:
    run = worked(stage, [{"json": {"n": 1}}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mulligan.events.file_archive.pack", lambda run: b"")
        with pytest.raises((ArchiveUnfit, EventUnreadable)):
            shelf.client.archive([run])
    assert shelf.client.result(run) == {"n": 1}
    assert Keys(0).run(run) in shelf.keys_of(run)


def test_a_missing_file_is_told_and_holds_up_no_other(stage: Stage, shelf: Shelf) -> None:
    run = worked(stage, [{"json": {"n": 1}}])
    assert shelf.client.archive([run]).runs == [run]
    path = shelf.files.path(run)
    hidden = path.rename(path.with_suffix(".hidden"))

    shown = shelf.call(f"status {run}")
    assert (shown.exit_code, "MULLIGAN_ARCHIVE_DIR" in shown.stderr) == (5, True)
    verified = json.loads(shelf.call("verify --json").stdout)
    assert list(verified["problems"]) == [run]
    assert run in shelf.call("list").stdout
    hidden.rename(path)
    assert shelf.call(f"status {run}").exit_code == 0


def test_rows_that_are_not_with_the_archive_are_folded(stage: Stage, shelf: Shelf) -> None:
    run = worked(stage, [{"json": {"n": 1}}])
    shelf.client.archive([run])
    (shelf.settings.archive / "rows.jsonl").unlink()

    for rows in (SUMMARIES, USAGE):
        assert any(row.run == run and row.version for row in read_rows(shelf.client.store, rows))
    assert shelf.call("verify").exit_code == 0
    assert shelf.call("rebuild").exit_code == 0
    assert shelf.files.rows("usage", [run]).keys() == {run}
    assert shelf.client.archiver.refold() == 0, "all are as they are folded"


def test_two_that_archive_the_same_run_both_find_it_archived(stage: Stage, shelf: Shelf) -> None:
    run = worked(stage, [{"json": {"n": 1}}])
    read = ArchivedStore.stored

    def other_first(store: ArchivedStore, name: str) -> Any:
        patch.setattr(ArchivedStore, "stored", read)
        assert shelf.client.archive([name]).runs == [name]
        return read(store, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArchivedStore, "stored", other_first)
        done = shelf.client.archive([run])
    assert (done.runs, done.left) == ([run], {})
    assert shelf.client.result(run) == {"n": 1}


def test_programs_archive_in_batches(stage: Stage, shelf: Shelf) -> None:
    runs = [worked(stage, [{"json": {"n": 1}}]) for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archiver, "BATCH_RUNS", 2)
        assert shelf.client.archive(runs).runs == runs
    assert all(shelf.client.result(run) == {"n": 1} for run in runs)


def test_a_run_that_is_archived_between_two_pages_is_read_whole(stage: Stage, shelf: Shelf) -> None:
    run = worked(stage, [{"json": {"n": 1}}])
    whole = list(shelf.client.events(run))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mulligan.events.redis_streams.PAGE", 4)
        patch.setattr("mulligan.events.archived_store.PAGE", 4)
        read = Streams._page

        def archived_after_the_first(self: Streams, *place: Any) -> Any:
            page = read(self, *place)
            patch.setattr(Streams, "_page", read)
            shelf.client.archive([run])
            return page

        patch.setattr(Streams, "_page", archived_after_the_first)
        assert len(whole) > 4
        assert list(shelf.client.events(run)) == whole
    assert shelf.client.store.read(run, 2, limit=3) == whole[2:5]
