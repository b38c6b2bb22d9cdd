"""Rows of `bench/compare.py` about what a person waits for before anything happens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from compare_size import Size
from compare_table import OURS, Figures
from contender import CONTENDERS

from mulligan.client import Client
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer

STATUS, IMPORT = "mulligan status of a run", "Python's start and an import"
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
IMPORTS = {
    "LangGraph": "langgraph.graph",
    "DBOS": "dbos",
    "Celery": "celery",
    "Dramatiq": "dramatiq",
}


def starts(found: Figures, size: Size, peers: Path) -> None:
    """
    Milliseconds from a process's start to its end. Bytecode is there from the first start on, as
    after an installation, also where the environment says not to write any.
    """
    with ValkeyServer() as server, TemporaryDirectory() as name:
        with Client(Settings(redis_url=server.url, data_dir=Path(name))) as client:
            client.enqueue(str(CONTENDERS / "one.yaml"), 1, run_id="run")
        environment = {
            **{name: said for name, said in os.environ.items() if name != NO_BYTECODE},
            "PYTHONPYCACHEPREFIX": name,
            "MULLIGAN_REDIS_URL": server.url,
        }
        for turn in range(size.starts + 1):
            status = _took_ms(
                sys.executable, "-m", "mulligan.cli", "status", "run", environment=environment
            )
            figures = {
                "Python alone": _took_ms(sys.executable, "-c", "pass", environment=environment),
                OURS: _took_ms(sys.executable, "-c", "import mulligan", environment=environment),
                **{
                    peer: _took_ms(str(peers), "-c", f"import {module}", environment=environment)
                    for peer, module in IMPORTS.items()
                },
            }
            if turn:  # the first of each reads it from the disk
                found.keep(STATUS, OURS, "ms", status)
                for contender, took_ms in figures.items():
                    found.keep(IMPORT, contender, "ms", took_ms)


def _took_ms(*command: str, environment: Mapping[str, str]) -> float:
    began_s = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return 1_000 * (time.perf_counter() - began_s)
