"""
Intents in a folder: a file each, linked to its name with all that it holds, so that of two workers
one is first, and nobody reads half of one.
"""

from __future__ import annotations

import os
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote

import msgspec

from mulligan.errors import IntentsUnfit
from mulligan.events.intents import Intent
from mulligan.events.run_files import path_of, sync_folder

ENDING = ".intent"
MAX_RUNS = 1_000
"""Of whose files this process remembers what they hold; they never change."""

_decoder = msgspec.json.Decoder(Intent)


class FolderIntents:
    """
    `Intents` in `folder`, which is made when the first one is noted. Workers of several machines
    share it where its file system has hard links and syncs that hold for all of them (NFS has).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._lock = Lock()
        self._known: OrderedDict[str, dict[str, Intent]] = OrderedDict()

    @property
    def place(self) -> str:
        """See `Intents.place`."""
        return str(self._folder)

    def check(self) -> None:
        """See `Intents.check`."""
        with self._failing():
            self._folder.mkdir(parents=True, exist_ok=True)
            probe = self._folder / f"probe-{secrets.token_hex(8)}"
            try:
                if not _link(self._folder, probe, b""):
                    raise FileExistsError(0, "a file of a fresh name is there")
            finally:
                probe.unlink(missing_ok=True)

    def note(self, intent: Intent) -> bool:
        """See `Intents.note`."""
        folder = self._folder_of(intent.run)
        with self._failing():
            # Another may have made it a moment ago, and not have synced it yet.
            if intent.run not in self._known:
                folder.mkdir(parents=True, exist_ok=True)
                for made in (folder.parent, self._folder, self._folder.parent):
                    sync_folder(made)
            return _link(folder, folder / _name(intent), msgspec.json.encode(intent))

    def of_run(self, run: str) -> list[Intent]:
        """See `Intents.of_run`."""
        folder = self._folder_of(run)
        with self._failing():
            try:
                names = [one for one in os.listdir(folder) if one.endswith(ENDING)]
            except FileNotFoundError:
                return []
            known = self._known_of(run)
            for name in names:
                if name not in known:
                    known[name] = _read(run, folder / name)
        return sorted((known[name] for name in names), key=lambda one: (one.call_id, one.execution))

    def runs(self) -> Iterator[str]:
        """See `Intents.runs`."""
        with self._failing():
            folders = sorted(self._folder.glob("??/*.*")) if self._folder.is_dir() else []
        for folder in folders:
            with self._failing():
                notes = (one for one in folder.iterdir() if one.suffix == ENDING)
                runs = (_run_of(note.read_bytes()) for note in notes)
                # One that was spoilt, or came from elsewhere, does not hide the others.
                mine = (one for one in runs if one is not None and self._folder_of(one) == folder)
                run = next(mine, None)
            if run is not None:
                yield run

    def _folder_of(self, run: str) -> Path:
        return path_of(self._folder, run)

    def _known_of(self, run: str) -> dict[str, Intent]:
        with self._lock:
            known = self._known.setdefault(run, {})
            self._known.move_to_end(run)
            if len(self._known) > MAX_RUNS:
                self._known.popitem(last=False)
            return known

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise IntentsUnfit(
                f"{self._folder} can't keep the intents of writes ({error.strerror}); make it "
                "writable, make room, or name another folder by MULLIGAN_INTENTS_DIR"
            ) from None


def _name(intent: Intent) -> str:
    return f"{quote(intent.call_id, safe='')}.{intent.execution}{ENDING}"


def _link(folder: Path, path: Path, data: bytes) -> bool:
    """Make a file with all that it holds, on disk before this returns; False: it is there."""
    draft = folder / f".{secrets.token_hex(8)}"
    try:
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    sync_folder(folder)
    return True


def _read(run: str, path: Path) -> Intent:
    """What a file holds; of one that was spoilt, what its name tells."""
    with suppress(msgspec.DecodeError):
        intent = _decoder.decode(path.read_bytes())
        if intent.run == run:
            return intent
    call, _, execution = path.name.removesuffix(ENDING).rpartition(".")
    number = int(execution) if execution.isdecimal() else 0
    return Intent(run=run, call_id=unquote(call), execution=number)


def _run_of(data: bytes) -> str | None:
    try:
        return _decoder.decode(data).run
    except msgspec.DecodeError:
        return None
