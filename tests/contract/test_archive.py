"""The archive: what is kept reads back, whatever happens while it is kept."""

from __future__ import annotations

import gzip
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.errors import ArchiveUnfit, EventUnreadable
from mulligan.events.archive import Archive, ArchivedRun, StoredEvent
from mulligan.events.file_archive import ROWS, FileArchive
from mulligan.events.payload import digest_of

VALUE = b'{"large":"v\xc3\xa4lue"}'


def run_of(name: str, events: int = 3, row: bytes = b'{"run":"x"}') -> ArchivedRun:
    return ArchivedRun(
        run=name,
        events=tuple(
            StoredEvent(1_000 + n, b'{"id":"op.%d","data":{"a": 1}}' % n) for n in range(events)
        ),
        payloads={digest_of(VALUE): VALUE},
        rows={"run": row, "usage": b"{}"},
    )


@pytest.fixture(params=["files"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    return FileArchive(tmp_path / "archive")


@pytest.mark.parametrize("name", ["run", "..", "ü" * 200, "a" * 200, "A.b:c-1", "a:b"])
def test_what_is_kept_reads_back_byte_for_byte(archive: Archive, name: str) -> None:
    archive.keep([run_of(name), run_of("other", events=1)])

    assert archive.load(name) == run_of(name)
    assert archive.load("none") is None
    assert archive.rows("run", [name, "none"]) == {name: b'{"run":"x"}'}
    assert archive.rows("trace", [name]) == {}


def test_runs_whose_names_look_alike_are_told_apart(archive: Archive) -> None:
    names = ["a:b", "a.b", "a-b", "A-b"]
    archive.keep([run_of(name, events=n) for n, name in enumerate(names, start=1)])

    assert [len(archive.load(name).events) for name in names] == [1, 2, 3, 4]  # type: ignore[union-attr]


def test_a_run_is_kept_again_in_place_of_what_was_there(archive: Archive) -> None:
    archive.keep([run_of("run")])
    assert archive.load("run") == run_of("run")
    archive.keep([run_of("run", events=4, row=b'{"run":"y"}')])

    assert archive.load("run") == run_of("run", events=4, row=b'{"run":"y"}')
    assert archive.rows("run", ["run"]) == {"run": b'{"run":"y"}'}


# --- Files ---------------------------------------------------------------------------------------


def test_a_file_is_lines_that_others_can_read(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path)
    archive.keep([run_of("run-1")])
    path = archive.path("run-1")

    assert path.name.startswith("run-1.")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert lines[1] == (
        '{"kind":"event","version":1,"time_ms":1000,"event":{"id":"op.0","data":{"a": 1}}}'
    )


@pytest.mark.parametrize("damage", ["cut", "flipped", "other", "lines", "newer", "value", "empty"])
def test_a_damaged_file_is_told_as_such(tmp_path: Path, damage: str) -> None:
    archive = FileArchive(tmp_path)
    archive.keep([run_of("run"), run_of("other")])
    path = archive.path("run")
    data = path.read_bytes()
    lines = gzip.decompress(data).splitlines(keepends=True)
    path.write_bytes(
        {
            "cut": data[:-9],
            "flipped": data[:40] + bytes([data[40] ^ 1]) + data[41:],
            "other": archive.path("other").read_bytes(),
            "lines": gzip.compress(b"".join(lines[:2] + lines[3:])),
            "newer": gzip.compress(
                lines[0].replace(b'"format":1', b'"format":2') + b"".join(lines[1:])
            ),
            "value": gzip.compress(b"".join(lines).replace(b'"large"', b'"small"')),
            "empty": b"",
        }[damage]
    )
    with pytest.raises(EventUnreadable, match="run 'run': its archived file"):
        archive.load("run")
    assert archive.load("other") is not None


def test_half_a_line_of_rows_spoils_no_other(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path)
    archive.keep([run_of("first")])
    with (tmp_path / ROWS).open("ab") as file:
        file.write(b'{"run":"half","ro')
    archive.keep([run_of("last")])

    assert set(archive.rows("run", ["first", "half", "last"])) == {"first", "last"}


def test_a_folder_that_can_not_be_used_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveUnfit, match="MULLIGAN_ARCHIVE_DIR"):
        FileArchive(tmp_path / "file" / "archive").keep([run_of("run")])


def test_a_write_that_fails_midway_leaves_what_was_there(tmp_path: Path) -> None:
    """As on a full disk."""
    archive = FileArchive(tmp_path)
    archive.keep([run_of("run")])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))
    try:
        with pytest.raises(ArchiveUnfit, match="make room"):
            archive.keep([run_of("run", events=2_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert archive.load("run") == run_of("run")
    assert [path.name for path in archive.path("run").parent.iterdir()] == [
        archive.path("run").name
    ], "no rest of it"


KEEP = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1])))
from test_archive import run_of
from mulligan.events.file_archive import FileArchive

step, calls = int(sys.argv[3]), 0

def dying(real):
    def call(*given, **more):
        global calls
        calls += 1
        if calls == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **more)
    return call

for name in ("fsync", "replace", "fdopen", "open"):
    setattr(os, name, dying(getattr(os, name)))
FileArchive(Path(sys.argv[2])).keep([run_of("first", 5), run_of("second", 5)])
"""


def test_killed_at_any_step_each_run_is_as_it_was_or_as_it_is(tmp_path: Path) -> None:
    archive = FileArchive(tmp_path)
    killed = 0
    for step in range(1, 40):
        archive.keep([run_of("first", 1), run_of("second", 1)])
        here = str(Path(__file__).parent)
        done = subprocess.run(
            [sys.executable, "-c", KEEP, here, str(tmp_path), str(step)], check=False
        )
        for name in ("first", "second"):
            assert archive.load(name) in (run_of(name, 1), run_of(name, 5)), step
            assert archive.rows("run", [name])
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed += 1
    assert done.returncode == 0
    assert killed >= 8
    assert (archive.load("first"), archive.load("second")) == (
        run_of("first", 5),
        run_of("second", 5),
    )
