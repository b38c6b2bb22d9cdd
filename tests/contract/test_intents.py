"""The port of a witness outside the log, as any of them has to keep it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from mulligan.errors import IntentsUnfit
from mulligan.events.folder_intents import FolderIntents
from mulligan.events.intents import Intent, Intents

INTENT = Intent(
    run="order-17",
    call_id="gather.1.1",
    execution=1,
    event="op.0",
    code="shop:send",
    digest="d",
    at_ms=1_000,
)


@pytest.fixture
def witness(tmp_path: Path) -> Intents:
    return FolderIntents(tmp_path / "made" / "intents")


def test_what_was_noted_is_read_by_another(witness: Intents) -> None:
    witness.check()
    assert witness.note(INTENT)
    assert witness.note(replace(INTENT, execution=2, event="op2.0"))

    other = FolderIntents(Path(witness.place))

    assert [INTENT, replace(INTENT, execution=2, event="op2.0")] == other.of_run("order-17")
    assert [] == other.of_run("order-18")
    assert ["order-17"] == list(other.runs())


def test_a_note_is_whole_where_it_is_written_in_pieces(
    witness: Intents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a file system that runs out of room, and has some again."""
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[:7]))
        assert witness.note(INTENT)

    assert [INTENT] == FolderIntents(Path(witness.place)).of_run("order-17")


def test_an_execution_is_noted_once_whoever_notes_it(witness: Intents) -> None:
    firsts: list[str] = []
    start = threading.Barrier(8)

    def note(number: int) -> None:
        start.wait()
        if FolderIntents(Path(witness.place)).note(replace(INTENT, event=f"op{number}.0")):
            firsts.append(f"op{number}.0")

    threads = [threading.Thread(target=note, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len(firsts)
    assert firsts == [one.event for one in witness.of_run("order-17")]


@pytest.mark.parametrize("run", ["a" * 200, "ärger", "..", "a.b:c", "%2F", "-"])
def test_runs_of_any_name_are_kept_apart(witness: Intents, run: str) -> None:
    mine = replace(INTENT, run=run, call_id="part[3].1.1/../x")
    witness.note(INTENT)
    witness.note(mine)

    assert [mine] == witness.of_run(run)
    assert {"order-17", run} == set(witness.runs())


def test_before_anything_was_noted_there_is_nothing(witness: Intents) -> None:
    assert [] == witness.of_run("order-17")
    assert [] == list(witness.runs())


def test_a_note_that_was_spoilt_is_one_all_the_same(witness: Intents) -> None:
    """A disk may break; that something had begun is known by the name."""
    witness.note(INTENT)
    (file,) = Path(witness.place).glob("*/*/*")
    file.write_bytes(b"")

    (spoilt,) = FolderIntents(Path(witness.place)).of_run("order-17")

    assert ("gather.1.1", 1, "") == (spoilt.call_id, spoilt.execution, spoilt.event)
    assert not witness.note(INTENT)


@pytest.mark.parametrize("spoilt", ["1", "2", "3"])
def test_a_run_is_found_by_whichever_of_its_notes_is_whole(witness: Intents, spoilt: str) -> None:
    foreign = replace(INTENT, run="other", call_id="part.1.1")
    for number in (1, 2, 3):
        witness.note(replace(INTENT, call_id=f"part.{number}.1"))
    witness.note(foreign)
    for file in Path(witness.place).glob("*/order-17*/*"):
        if f"part.{spoilt}." not in file.name:
            file.write_bytes(b"")
    (theirs,) = Path(witness.place).glob("*/other*/*")
    for file in Path(witness.place).glob("*/order-17*"):
        (file / "aa.1.intent").write_bytes(theirs.read_bytes())

    assert ["order-17", "other"] == sorted(witness.runs())


def test_nothing_is_left_of_a_worker_that_was_killed_while_it_noted(witness: Intents) -> None:
    witness.note(INTENT)
    (file,) = Path(witness.place).glob("*/*/*")
    (file.parent / ".half").write_bytes(b"{")

    assert [INTENT] == witness.of_run("order-17")
    assert ["order-17"] == list(witness.runs())


def test_a_place_that_can_t_take_notes_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    witness = FolderIntents(tmp_path / "file")

    for call in (witness.check, lambda: witness.note(INTENT)):
        with pytest.raises(IntentsUnfit, match="MULLIGAN_INTENTS_DIR"):
            call()
