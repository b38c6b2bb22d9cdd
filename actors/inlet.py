"""
How wake-ups come into a process: one blocking read for all of its queues, and never more of them
read than threads are free.

Dramatiq gives every queue a consumer thread. Whichever of them holds the baton reads for all; the
others wait for it. One connection then idles at one command a second however many queues there
are, priorities hold across queues, and a queue that is empty can't sit on the last free thread.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import redis
import structlog
from dramatiq.errors import DecodeError
from dramatiq.message import Message
from redis.backoff import NoBackoff
from redis.retry import Retry

from mulligan.events.keys import queue_key

LISTENER_PREFIX = "mulligan-worker:"
"""The reading connection's name begins so; `mulligan doctor` finds workers by it."""

BLOCK_S = 1.0
READ_TIMEOUT_S = 10.0
"""Far beyond the block: a server that vanished without a word is noticed, a slow one is not."""

FIRST_BACKOFF_S = 0.05
LAST_BACKOFF_S = 1.0
STOPPED_PAUSE_S = 0.02

log = structlog.get_logger(__name__)


class Inlet:
    """
    The one reader of a process.

    Args:
        url: of the server that holds the lists.
        unblock: ends the blocking read of a client id (CLIENT UNBLOCK, over another connection).
    """

    def __init__(self, url: str, priorities: Sequence[int], unblock: Callable[[int], None]) -> None:
        self._url = url
        self._priorities = tuple(priorities)
        self._unblock = unblock
        self._baton = threading.Lock()
        self._stopped = threading.Event()
        self._queues: list[str] = []
        self._client: redis.Redis | None = None
        self._client_id: int | None = None
        self._backoff_s = 0.0
        self._turn = 0
        self._reading = False
        self._lock = threading.Lock()  # over the queues and the counts
        self._outstanding: Counter[str] = Counter()
        self._free: threading.Semaphore | None = None

    def start(self, threads: int) -> None:
        """A worker with so many threads begins; all of them are free."""
        self._free = threading.Semaphore(threads)
        self._stopped.clear()

    def open(self, queue: str, prefetch: int) -> None:
        """Read `queue` too from now on; without a worker, `prefetch` bounds what is read."""
        if self._free is None:
            self.start(prefetch)
        with self._lock:
            if queue not in self._queues:
                self._queues = [*self._queues, queue]
        self._end_read()

    @property
    def queues(self) -> set[str]:
        """The queues that are read."""
        with self._lock:
            return set(self._queues)

    def close(self, queue: str) -> None:
        """Read `queue` no longer; the connection goes with the last one."""
        with self._lock:
            self._queues = [name for name in self._queues if name != queue]
        if not self._queues:
            self._drop_connection()

    def next(self, timeout_s: float) -> Message[object] | None:
        """
        The next message of any open queue, which now occupies a thread until `done`; None: nothing
        came in time, another thread reads, no thread is free, or there is no connection.
        """
        if self._stopped.is_set():
            time.sleep(STOPPED_PAUSE_S)
            return None
        if not self._baton.acquire(timeout=timeout_s):
            return None
        self._turn += 1
        self._reading = True  # before the look at `stopped`, or `stop` could miss this turn
        try:
            return None if self._stopped.is_set() else self._next_for_free_thread(timeout_s)
        finally:
            self._reading = False
            self._baton.release()

    def done(self, queue: str) -> None:
        """A message of `queue` was worked, or goes back: its thread is free."""
        with self._lock:
            self._outstanding[queue] -= 1
        assert self._free is not None
        self._free.release()

    def outstanding(self, queue: str) -> int:
        """Messages of `queue` that this process has read and not yet worked."""
        with self._lock:
            return self._outstanding[queue]

    def stop(self) -> None:
        """Read nothing more. When this returns no read is under way."""
        self._stopped.set()
        self.settle()

    def settle(self) -> None:
        """End the read that is under way: what the server handed out has arrived."""
        turn = self._turn
        # A request to unblock that arrives before the read it is meant for does nothing.
        while self._reading and self._turn == turn:
            self._end_read()
            time.sleep(STOPPED_PAUSE_S)

    def _next_for_free_thread(self, timeout_s: float) -> Message[object] | None:
        assert self._free is not None
        if not self._free.acquire(timeout=timeout_s):
            return None
        if self._stopped.is_set():
            self._free.release()
            return None
        message = None
        try:
            message = self._read()
        finally:
            if message is None:
                self._free.release()
        return message

    def _read(self) -> Message[object] | None:
        try:
            item = self._connected().blpop(self._keys(), timeout=BLOCK_S)
        except (redis.RedisError, OSError) as error:
            self._lost(error)
            return None
        self._found()
        return None if item is None else self._decoded(item[1])

    def _decoded(self, data: bytes | str) -> Message[object] | None:
        """Something that is no message of ours is dropped: wake-ups are sent again."""
        try:
            message: Message[object] = Message.decode(data)  # type: ignore[arg-type]
        except DecodeError:
            log.error("dropped something unreadable from the queue", length=len(data))
            return None
        if message.queue_name not in self._queues:
            log.error("dropped a message of another queue", queue=message.queue_name)
            return None
        with self._lock:
            self._outstanding[message.queue_name] += 1
        return message

    def _keys(self) -> list[str]:
        """Urgent lists first; within a priority each queue gets its turn to be first."""
        queues = self._queues
        first = self._turn % len(queues)
        turned = queues[first:] + queues[:first]
        return [queue_key(queue, at) for at in self._priorities for queue in turned]

    def _connected(self) -> redis.Redis:
        if self._client is None:
            client = redis.Redis.from_url(
                self._url,
                socket_timeout=READ_TIMEOUT_S,
                single_connection_client=True,
                client_name=f"{LISTENER_PREFIX}{socket.gethostname()}:{os.getpid()}",
                retry=Retry(NoBackoff(), 0),
            )
            self._client_id = int(client.client_id())
            self._client = client
        return self._client

    def _drop_connection(self) -> None:
        client, self._client, self._client_id = self._client, None, None
        if client is not None:
            client.close()

    def _end_read(self) -> None:
        if self._client_id is not None:
            self._unblock(self._client_id)

    def _lost(self, error: Exception) -> None:
        if not self._backoff_s:
            log.warning("no connection to the queue; trying again", error=type(error).__name__)
        self._drop_connection()
        self._backoff_s = min(max(self._backoff_s * 2, FIRST_BACKOFF_S), LAST_BACKOFF_S)
        self._stopped.wait(self._backoff_s)

    def _found(self) -> None:
        if self._backoff_s:
            log.warning("the queue is back")
            self._backoff_s = 0.0
