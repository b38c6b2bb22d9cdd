"""
A contender of `bench/compare.py`, in a process of its own, whose end is `contenders/serving.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

END_TIMEOUT_S = 30.0
CONTENDERS = Path(__file__).parent / "contenders"


class ContenderEnded(Exception):
    """A contender has ended by itself; what it said on stderr tells why."""


class Contender:
    """
    A script of `contenders/`, run by an interpreter; what it prints beside its figures goes to the
    file `log`.
    """

    def __init__(
        self,
        python: Path,
        script: str,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._log = script, log
        with log.open("w") as file:
            self._process = subprocess.Popen(
                [str(python), str(CONTENDERS / f"{script}.py"), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        try:
            self._line()
        except BaseException:
            self.close()
            raise

    def measure(self, name: str, **arguments: Any) -> list[float]:
        """
        Seconds, of each thing that was measured.

        Raises:
            ContenderEnded: it could not.
        """
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the reading says why
            print(json.dumps({"measure": name, **arguments}), file=self._process.stdin, flush=True)
        figures: list[float] = json.loads(self._line())
        return figures

    def close(self) -> None:
        """End it, in good order if it can."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._log.read_text(errors="replace")[-2_000:]
            raise ContenderEnded(f"{self._name} has ended: {said}")
        return line
