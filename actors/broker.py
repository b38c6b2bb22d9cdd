"""
The Dramatiq broker of our actors: Redis lists, and a read that deletes.

A message is only a wake-up. What a lost one would have started is started by the next sweep, so
the queue keeps no leases, heartbeats, delays or dead letters of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import dramatiq
import redis
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.errors import BrokerConnectionError, QueueJoinTimeout, QueueNotFound
from dramatiq.message import Message
from dramatiq.middleware import Middleware
from redis.backoff import NoBackoff
from redis.retry import Retry

from mulligan.actors.inlet import Inlet
from mulligan.errors import EnvironmentUnfit, InvalidInput, StoreUnavailable
from mulligan.events.keys import queue_key
from mulligan.events.redis_connection import is_cluster_url
from mulligan.settings import next_database

PRIORITIES = (-1, 0, 1)
"""As everywhere in Dramatiq, the smaller number goes first."""

SOCKET_TIMEOUT_S = 5.0
JOIN_POLL_S = 0.01


class RedisListBroker(dramatiq.Broker):
    """
    A broker with one Redis list a queue and priority, at most once, without delays.

    A message's priority is its option `priority`, else its actor's. Calls that find no server
    raise Dramatiq's `BrokerConnectionError`; consumers wait for it to come back.

    Args:
        middleware: none by default: Dramatiq's own retry, limit ages and times, and keep results,
            all of which the log does for our actors.
    """

    def __init__(
        self,
        url: str,
        *,
        middleware: list[Middleware] | None = None,
        priorities: Sequence[int] = PRIORITIES,
    ) -> None:
        super().__init__(middleware=middleware or [])
        self.queues: set[str] = set()
        self._priorities = sorted(priorities)
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            # An idle connection may have died; a wake-up sent twice does no harm.
            retry=Retry(NoBackoff(), 1),
        )
        self._inlet = Inlet(url, self._priorities, self._unblock)
        self.add_middleware(_WorkerBounds(self._inlet))

    def declare_actor(self, actor: dramatiq.Actor[..., object]) -> None:
        """Declare an actor; its priority must be one that the broker has."""
        self._checked_priority(actor.priority, f"actor {actor.actor_name!r}")
        super().declare_actor(actor)

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue; again does nothing."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues.add(queue_name)
            self.emit_after("declare_queue", queue_name)

    def get_declared_queues(self) -> set[str]:
        """The names of all queues declared so far."""
        return self.queues.copy()

    def enqueue(self, message: Message[object], *, delay: int | None = None) -> Message[object]:
        """
        Add a message to its queue, declared here or not.

        Raises:
            InvalidInput: a delay, or a priority that the broker does not have.
            BrokerConnectionError: the server did not take it, or did not say so.
        """
        if delay:
            raise InvalidInput(
                f"message for {message.actor_name!r}: this queue has no delays; make it due later "
                "in the log, or use another Dramatiq broker for actors of your own"
            )
        key = self._key(message)
        self.emit_before("enqueue", message, delay)
        with _AsBrokerErrors():
            self._client.rpush(key, message.encode())
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 1_000) -> Consumer:
        """
        Iterate over messages as they come, None after `timeout` ms without one. Under a worker its
        free threads bound what is read, else `prefetch` does.

        Raises:
            QueueNotFound: the queue was never declared.
        """
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        return _ListConsumer(self, self._inlet, queue_name, prefetch, timeout)

    @property
    def read_queues(self) -> set[str]:
        """The queues that this process reads now."""
        return self._inlet.queues

    def put_back(self, messages: Sequence[Message[object]]) -> None:
        """Return messages unworked to the head of their queues, in order."""
        with _AsBrokerErrors(), self._client.pipeline(transaction=False) as pipe:
            for message in reversed(messages):
                pipe.lpush(self._key(message), message.encode())
            pipe.execute()

    def queue_length(self, queue_name: str | None = None) -> int:
        """How many messages wait, in one queue or in all declared ones."""
        with _AsBrokerErrors(), self._client.pipeline(transaction=False) as pipe:
            for key in self._keys(queue_name):
                pipe.llen(key)
            return sum(pipe.execute())

    def flush(self, queue_name: str) -> None:
        """Drop all messages that wait in a queue."""
        with _AsBrokerErrors():
            self._client.delete(*self._keys(queue_name))

    def flush_all(self) -> None:
        """Drop all messages that wait in any declared queue."""
        for queue_name in self.queues:
            self.flush(queue_name)

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        """
        Wait until a queue is empty and this process has worked what it read of it. For tests.

        Raises:
            QueueJoinTimeout: that took more than `timeout` ms.
        """
        deadline = None if timeout is None else time.monotonic() + timeout / 1_000
        while not self._worked_off(queue_name):
            if deadline is not None and time.monotonic() > deadline:
                raise QueueJoinTimeout(queue_name)
            time.sleep(JOIN_POLL_S)

    def close(self) -> None:
        """Read nothing more and let go of the connections."""
        self._inlet.stop()
        for queue_name in self.queues:
            self._inlet.close(queue_name)
        self._client.close()

    def _worked_off(self, queue_name: str) -> bool:
        if self.queue_length(queue_name) or self._inlet.outstanding(queue_name):
            return False
        self._inlet.settle()
        return not self._inlet.outstanding(queue_name)

    def _keys(self, queue_name: str | None) -> list[str]:
        queues = self.queues if queue_name is None else {queue_name}
        return [queue_key(queue, at) for queue in queues for at in self._priorities]

    def _key(self, message: Message[object]) -> str:
        actor = self.actors.get(message.actor_name)
        priority = message.options.get("priority", actor.priority if actor else 0)
        self._checked_priority(priority, f"message for {message.actor_name!r}")
        return queue_key(message.queue_name, priority)

    def _checked_priority(self, priority: object, what: str) -> None:
        if priority not in self._priorities:
            known = ", ".join(map(str, self._priorities))
            raise InvalidInput(f"{what}: priority {priority!r} must be one of {known}")

    def _unblock(self, client_id: int) -> None:
        try:
            self._client.client_unblock(client_id)
        except (redis.RedisError, OSError):
            self.logger.debug("could not end a read early; it ends by itself within a second")


class _ListConsumer(Consumer):
    """A queue's consumer; the messages it hands out may be of any queue of this process."""

    def __init__(
        self, broker: RedisListBroker, inlet: Inlet, queue: str, prefetch: int, timeout_ms: int
    ) -> None:
        self._broker = broker
        self._inlet = inlet
        self._queue = queue
        self._prefetch = prefetch
        self._timeout_s = timeout_ms / 1_000
        self._opened = False

    def __next__(self) -> MessageProxy | None:
        # Not before: a message may be handed out by another queue's consumer, and is acknowledged
        # to this one, which Dramatiq does not know until `consume` has returned.
        if not self._opened:
            self._opened = True
            self._inlet.open(self._queue, self._prefetch)
        message = self._inlet.next(self._timeout_s)
        return None if message is None else MessageProxy(message)

    def ack(self, message: MessageProxy) -> None:
        """It was deleted when it was read; its thread is free."""
        self._inlet.done(message.queue_name)

    def nack(self, message: MessageProxy) -> None:
        """As `ack`: whatever it was to wake is found by the next sweep."""
        self._inlet.done(message.queue_name)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        returned = list(messages)
        if returned:
            self._broker.put_back([message._message for message in returned])
        for message in returned:
            self._inlet.done(message.queue_name)

    def close(self) -> None:
        self._inlet.close(self._queue)


class _WorkerBounds(Middleware):
    """Tells the inlet how many threads a worker has, and when it drains."""

    def __init__(self, inlet: Inlet) -> None:
        self._inlet = inlet

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self._inlet.start(worker.worker_threads)

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self._inlet.stop()


class _AsBrokerErrors:
    """Client errors as Dramatiq's, so that callers know one kind for all brokers."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, redis.RedisError | OSError):
            raise BrokerConnectionError(f"the queue's server: {error}") from error


def make_broker(broker: str | dramatiq.Broker) -> dramatiq.Broker:
    """
    A broker for a URL: `redis`, `rediss`, `unix` → ours; `amqp`, `amqps` → Dramatiq's for RabbitMQ;
    `stub` → Dramatiq's in memory. A broker is taken as it is. With any of them the system is
    correct; ours is the quickest.

    Raises:
        EnvironmentUnfit: the client for RabbitMQ is not installed.
    """
    if isinstance(broker, dramatiq.Broker):
        return broker
    scheme = broker.partition(":")[0]
    if scheme in ("amqp", "amqps"):
        return _rabbitmq_broker(broker)
    if scheme == "stub":
        from dramatiq.brokers.stub import StubBroker

        return StubBroker(middleware=[])
    return RedisListBroker(broker)


def _rabbitmq_broker(url: str) -> dramatiq.Broker:
    try:
        from dramatiq.brokers.rabbitmq import RabbitmqBroker
    except ImportError:
        raise EnvironmentUnfit(
            "MULLIGAN_BROKER_URL names RabbitMQ, whose client is not installed; "
            "run: pip install 'dramatiq[rabbitmq]'"
        ) from None
    return RabbitmqBroker(url=url, middleware=[])


def broker_url_beside(store_url: str) -> str:
    """
    Where the queue is if nobody says otherwise: on the log's server, in the next database, so that
    emptying one leaves the other alone; in the same one where the server has no other (its keys
    are apart in any case).

    Raises:
        EnvironmentUnfit: the log is on a cluster, which has no other database.
        StoreUnavailable: the server does not answer.
    """
    if is_cluster_url(store_url):
        raise EnvironmentUnfit(
            "the log is on a Redis Cluster, which can't hold the queue; name a server for it with "
            "MULLIGAN_BROKER_URL"
        )
    url = next_database(store_url)
    try:
        with redis.Redis.from_url(
            url, socket_timeout=SOCKET_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        ) as client:
            client.ping()
    except redis.ResponseError:
        return store_url
    except (redis.RedisError, OSError) as error:
        raise StoreUnavailable(
            f"no answer from the queue's server ({type(error).__name__}); `mulligan doctor` looks "
            "into it"
        ) from None
    return url


def queue_length(broker: dramatiq.Broker) -> int:
    """How many messages wait in all queues; 0 for a broker that can't tell."""
    count = getattr(broker, "queue_length", None)
    return int(count()) if count is not None else 0
