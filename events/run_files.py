"""
Files that are kept for runs outside the log: what they are called, and how their names are made to
last.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path


def path_of(folder: Path, run: str, ending: str = "") -> Path:
    """
    What is a run's in `folder`. Its name is for people; the digest in it makes it the run's alone,
    however long or strange its id is.
    """
    digest = sha256(run.encode()).hexdigest()
    legible = "".join(one if one.isascii() and one.isalnum() else "-" for one in run)[:80]
    return folder / digest[:2] / f"{legible}.{digest[:32]}{ending}"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
