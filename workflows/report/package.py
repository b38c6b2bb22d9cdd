"""
A report's package: a folder with its summary, coverage and sources, and a version of its own.

    reports/<kind>/<week>/<run>/r01/{summary.md, coverage.json, sources.json, package.json}

A revision is written once and never changed: what differs is the next one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from mulligan.errors import ToolError
from mulligan.events.run_files import sync_folder

FORMAT = 1
"""Of `package.json`; rises when what it says changes its meaning."""
MANIFEST = "package.json"
MOST_REVISIONS = 999

Status = Literal["draft", "verified", "accepted"]
"""`draft`: as it was before it passed; `accepted`: a person took it with what is wrong with it."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a package says of itself; `files` are SHA-256 digests by name."""

    format: int
    kind: str
    week: str
    run: str
    revision: int
    status: Status
    files: dict[str, str]

    @property
    def digest(self) -> str:
        """Of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A package as it was read: its manifest, and its files' texts by name."""

    manifest: Manifest
    texts: dict[str, str]


def write_revision(
    reports: Path, run: str, scope: Mapping[str, Any], status: Status, files: Mapping[str, str]
) -> tuple[Path, Manifest]:
    """
    Write a revision, or find the one that is the same to the byte; `reports` is the folder of all.

    Raises ToolError `no_revision_left`, and OSError where nothing can be written.
    """
    if run in (".", ".."):
        raise ToolError("invalid_run_id", "a run of that id can have no folder of its own")
    base = reports / scope["kind"] / scope["week"] / run
    base.mkdir(parents=True, exist_ok=True)
    for revision in range(1, MOST_REVISIONS + 1):
        manifest = Manifest(
            format=FORMAT,
            kind=scope["kind"],
            week=scope["week"],
            run=run,
            revision=revision,
            status=status,
            files={name: _digest(text) for name, text in files.items()},
        )
        folder = base / f"r{revision:02}"
        if _written(folder, {**files, MANIFEST: _json(manifest)}):
            return folder, manifest
    raise ToolError("no_revision_left", f"{base} holds {MOST_REVISIONS} revisions")


def read_package(folder: Path) -> Package:
    """
    A package that was written before.

    Raises ToolError `package_unreadable`: it is not there, is none, or was changed since.
    """
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        texts = {name: (folder / Path(name).name).read_text("utf-8") for name in manifest.files}
    except (OSError, ValueError) as error:
        kind = type(error).__name__
        raise ToolError(
            "package_unreadable", f"{folder}: no package of a report ({kind})"
        ) from None
    changed = [name for name, text in texts.items() if _digest(text) != manifest.files[name]]
    if changed or manifest.format != FORMAT:
        what = f"{changed[0]} was changed" if changed else f"format {manifest.format} is unknown"
        raise ToolError("package_unreadable", f"{folder}: {what} since it was written")
    return Package(manifest=manifest, texts=texts)


def _written(folder: Path, files: Mapping[str, str]) -> bool:
    """Whether the folder holds these files now; one that holds others stays as it is."""
    if folder.exists():
        return _holds(folder, files)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, text in files.items():
            with (temporary / name).open("w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        temporary.chmod(0o755)
        temporary.rename(folder)  # refused where somebody else was first
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not folder.exists():
            raise
        return _holds(folder, files)
    sync_folder(folder.parent)
    return True


def _holds(folder: Path, files: Mapping[str, str]) -> bool:
    try:
        return {one.name for one in folder.iterdir()} == set(files) and all(
            (folder / name).read_bytes() == text.encode() for name, text in files.items()
        )
    except OSError:
        return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
