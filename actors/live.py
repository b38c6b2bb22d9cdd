"""
Live output of the requests that this process has under way, handed to those who watch.

Nothing is published unless somebody listens to the run: the server is asked about that at the
first piece of a run and then once a second. What comes within 50 ms goes out together, from one
thread for all requests; whoever reads the wire only puts pieces aside. A server that fails is left
alone for a while: live output is no reason to hold up, or to fail, a run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby
from typing import Any, Literal, TypeVar

import structlog

from mulligan.decisions.conversation import SUBMIT_OUTPUT
from mulligan.events.deltas import Delta, Deltas
from mulligan.providers.port import Hear, ModelRequest, Piece

T = TypeVar("T")

BATCH_S = 0.05
"""What people take for at once; 20 messages a second for a request at most."""
LOOK_AGAIN_S = 1.0
"""How long what the server said about listeners holds."""
LEAVE_ALONE_S = 5.0
"""How long a server that failed is not bothered again."""

_log = structlog.get_logger(__name__)


class LiveOutput:
    """One a process. Without `deltas` nobody can listen, and nothing is heard."""

    def __init__(self, deltas: Deltas | None) -> None:
        self._audience = _Audience(deltas) if deltas is not None else None
        self._changed = threading.Condition()
        self._open: list[_Response] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def hearing(self, run: str, request: ModelRequest) -> AbstractContextManager[Hear | None]:
        """What is to be told the pieces of the response to a request of `run`, in this context."""
        return nullcontext() if self._audience is None else self._hearing(run, request)

    def close(self) -> None:
        """End the thread and let go of connections."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        if self._audience is not None:
            self._audience.close()

    @contextmanager
    def _hearing(self, run: str, request: ModelRequest) -> Iterator[Hear]:
        assert self._audience is not None
        response = _Response(run, request, self._audience)
        with self._changed:
            self._open.append(response)
            self._begin()
            self._changed.notify()
        try:
            yield response.hear
        finally:
            with self._changed:
                self._open.remove(response)
            # Before the log says that the response has ended, so that readers can tell what is
            # of a request that is over.
            response.pass_on()

    def _begin(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._serve, name="live-output", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._open or self._closed)
                if self._closed:
                    return
                responses = list(self._open)
            for response in responses:
                response.pass_on()
            time.sleep(BATCH_S)


class _Response:
    """One response while it streams; passed on in order, by one thread at a time."""

    def __init__(self, run: str, request: ModelRequest, audience: _Audience) -> None:
        self._labels: dict[str, Any] = {
            "run": run,
            "node": request.node or "",
            "invocation": request.request_id.rpartition("#")[0],
            "attempt": request.attempt or 1,
            "request_id": request.request_id,
        }
        self._run = run
        self._audience = audience
        self._pieces: deque[Piece] = deque()
        self._told = {"text": 0, "output": 0}
        self._passing_on = threading.Lock()

    def hear(self, piece: Piece) -> None:
        """Put a piece aside, unless it is the arguments of a tool: those are nobody's reading."""
        if piece.tool in (None, SUBMIT_OUTPUT):
            self._pieces.append(piece)

    def pass_on(self) -> None:
        """Publish what was put aside, or drop it if nobody listens."""
        with self._passing_on:
            pieces = [self._pieces.popleft() for _ in range(len(self._pieces))]
            if not pieces:
                return
            listened = self._audience.listens(self._run)
            for tool, stretch in groupby(pieces, lambda piece: piece.tool):
                text = "".join(piece.text for piece in stretch)
                kind: Literal["text", "output"] = "text" if tool is None else "output"
                if listened:
                    self._audience.tell(
                        Delta(**self._labels, kind=kind, offset=self._told[kind], text=text)
                    )
                self._told[kind] += len(text)


class _Audience:
    """Who listens, as far as the server has said lately."""

    def __init__(self, deltas: Deltas) -> None:
        self._deltas = deltas
        self._lock = threading.Lock()
        self._looked_s: dict[str, float] = {}
        self._listened: set[str] = set()
        self._back_s = 0.0

    def listens(self, run: str) -> bool:
        """Whether anybody listens to a run."""
        now_s = time.monotonic()
        if now_s < self._back_s:
            return False
        with self._lock:
            if now_s - self._looked_s.get(run, -LOOK_AGAIN_S) < LOOK_AGAIN_S:
                return run in self._listened
            self._forget(now_s)
            self._listened |= self._try(lambda: self._deltas.listened([run])) or set()
            self._looked_s[run] = now_s
            return run in self._listened

    def tell(self, delta: Delta) -> None:
        """Publish, or let it be."""
        if time.monotonic() >= self._back_s:
            self._try(lambda: self._deltas.publish(delta))

    def close(self) -> None:
        self._deltas.close()

    def _forget(self, now_s: float) -> None:
        old = {run for run, at_s in self._looked_s.items() if now_s - at_s >= LOOK_AGAIN_S}
        for run in old:
            del self._looked_s[run]
        self._listened -= old

    def _try(self, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except Exception as error:  # whatever it is, the run is worth more
            self._back_s = time.monotonic() + LEAVE_ALONE_S
            _log.info("live_output_off", reason=type(error).__name__, seconds=LEAVE_ALONE_S)
            return None
