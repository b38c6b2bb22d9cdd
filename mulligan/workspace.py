"""
Writing a run's workspace: the folder of its artifacts, each file replaced as a whole.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

from mulligan.client import Client
from mulligan.events import facts
from mulligan.projections.workspace import files

CHANGING = (
    facts.QualityAssessed,
    facts.ReviewReceived,
    facts.RepairRoundCompleted,
    facts.DecisionRequested,
    facts.DecisionMade,
    facts.HandedOver,
)
"""After these facts the artifacts are others than before."""


def workspace_of(client: Client, run: str) -> Path:
    """Where a run's artifacts are written, unless somebody says otherwise."""
    return client.settings.data_dir / "runs" / run / "workspace"


def write_workspace(client: Client, run: str, folder: Path | None = None) -> list[Path]:
    """
    Write the artifacts of a run's repair loops, and return the files. A reader sees each as it was
    or as it is, never half of it.

    Raises:
        RunUnknown: there is no such run.
        OSError: the folder can't be written.
    """
    into = folder if folder is not None else workspace_of(client, run)
    written = []
    for name, data in files(run, client.events(run), partial(client.value, run)).items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
        written.append(path)
    return written


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
