"""
The archive in a folder: a file a run, and one file of their rows for lists.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import BinaryIO

import msgspec

from mulligan.errors import ArchiveUnfit
from mulligan.events.archive import ArchivedRun
from mulligan.events.archive_format import pack, unpack
from mulligan.events.run_files import path_of, sync_folder

ROWS = "rows.jsonl"
LOADED = 8
"""Runs that stay unpacked in this process: a command reads one several times."""


class _RowsOf(msgspec.Struct):
    run: str
    rows: dict[str, msgspec.Raw]


_rows_of = msgspec.json.Decoder(_RowsOf)


class FileArchive:
    """
    An `Archive` in `folder`, which is made when the first run is kept. Several machines may share
    it where its file system has locks and renames that hold for all of them (NFS 4 does).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._lock = Lock()
        self._loaded: OrderedDict[str, tuple[tuple[int, int], ArchivedRun]] = OrderedDict()
        self._rows: tuple[tuple[int, int], dict[str, dict[str, msgspec.Raw]]] = ((0, 0), {})

    @property
    def place(self) -> str:
        """See `Archive.place`."""
        return str(self._folder)

    def path(self, run: str) -> Path:
        """The file of a run."""
        return path_of(self._folder, run, ".jsonl.gz")

    # --- Keeping ---------------------------------------------------------------------------------

    def keep(self, runs: Sequence[ArchivedRun]) -> None:
        """See `Archive.keep`."""
        with self._failing():
            for run in runs:
                _write(self.path(run.run), pack(run))
            for folder in {self.path(run.run).parent for run in runs}:
                sync_folder(folder)
            for run in runs:
                self._read_back(run)
            self._add_rows(runs)
            sync_folder(self._folder)

    def _read_back(self, run: ArchivedRun) -> None:
        if unpack(run.run, self.path(run.run).read_bytes()) != run:
            raise ArchiveUnfit(
                f"run {run.run!r} does not read back from {self.path(run.run)} as it was written; "
                "it stays where it was"
            )

    def _add_rows(self, runs: Sequence[ArchivedRun]) -> None:
        lines = b"".join(
            msgspec.json.encode(
                _RowsOf(run.run, {name: msgspec.Raw(row) for name, row in run.rows.items()})
            )
            + b"\n"
            for run in runs
        )
        with (self._folder / ROWS).open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever was killed while it wrote here has left half a line.
            file.write(lines if _ends_in_line(file) else b"\n" + lines)
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise ArchiveUnfit(
                f"{self._folder} can't take archived runs ({error.strerror}); make it writable and "
                "make room, or name another folder by MULLIGAN_ARCHIVE_DIR"
            ) from None

    # --- Reading ---------------------------------------------------------------------------------

    def load(self, run: str) -> ArchivedRun | None:
        """See `Archive.load`."""
        path = self.path(run)
        stamp = _stamp(path)
        if stamp is None:
            return None
        with self._lock:
            if run in self._loaded and self._loaded[run][0] == stamp:
                self._loaded.move_to_end(run)
                return self._loaded[run][1]
        loaded = unpack(run, path.read_bytes())
        with self._lock:
            self._loaded[run] = stamp, loaded
            while len(self._loaded) > LOADED:
                self._loaded.popitem(last=False)
        return loaded

    def rows(self, projection: str, runs: Iterable[str]) -> dict[str, bytes]:
        """See `Archive.rows`."""
        known = self._known_rows()
        found = ((run, known[run].get(projection)) for run in runs if run in known)
        return {run: bytes(row) for run, row in found if row is not None}

    def _known_rows(self) -> dict[str, dict[str, msgspec.Raw]]:
        stamp = _stamp(self._folder / ROWS)
        if stamp is None:
            return {}
        with self._lock:
            if self._rows[0] != stamp:
                lines = (self._folder / ROWS).read_bytes().splitlines()
                self._rows = stamp, {one.run: one.rows for one in _decoded(lines)}
            return self._rows[1]


def _decoded(lines: list[bytes]) -> Iterator[_RowsOf]:
    """The lines that are whole; of a run that was kept again, the last counts."""
    for line in lines:
        try:
            yield _rows_of.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


def _ends_in_line(file: BinaryIO) -> bool:
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes with a file's contents; None: it is not there."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _write(path: Path, data: bytes) -> None:
    """A file, durable as a whole, or as it was."""
    path.parent.mkdir(exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
