"""The wake-up queue as Dramatiq uses a broker: real workers, a real server."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.errors import BrokerConnectionError, QueueJoinTimeout, QueueNotFound
from dramatiq.message import Message
from dramatiq.middleware import Middleware, SkipMessage

from mulligan.actors.broker import (
    RedisListBroker,
    broker_url_beside,
    make_broker,
    queue_length,
)
from mulligan.embedded import ensure_server, stop_server
from mulligan.errors import EnvironmentUnfit, InvalidInput, StoreUnavailable
from mulligan.events.keys import queue_key

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data_dir = tmp_path_factory.mktemp("server")
    yield ensure_server(data_dir)
    stop_server(data_dir)


@pytest.fixture
def url(server: str) -> str:
    with redis.Redis.from_url(server) as client:
        client.flushall()
    return broker_url_beside(server)


@pytest.fixture
def broker(url: str) -> Iterator[RedisListBroker]:
    broker = RedisListBroker(url)
    yield broker
    broker.close()


@pytest.fixture
def work(broker: RedisListBroker) -> Iterator[Callable[..., dramatiq.Worker]]:
    workers = []

    def start(threads: int = 4, **options: Any) -> dramatiq.Worker:
        worker = dramatiq.Worker(broker, worker_threads=threads, worker_timeout=50, **options)
        worker.start()
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.stop(timeout=5_000)


def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


def actor(broker: dramatiq.Broker, function: Callable[..., None], **options: Any) -> Any:
    return dramatiq.actor(function, broker=broker, **options)


def collector(broker: RedisListBroker, **options: Any) -> tuple[Any, list[Any]]:
    seen: list[Any] = []

    def collect(item: object) -> None:
        seen.append(item)

    return actor(broker, collect, **options), seen


# --- Sending and receiving -----------------------------------------------------------------------


def test_what_is_sent_is_worked_once(broker: RedisListBroker, work: Any) -> None:
    collect, seen = collector(broker)
    for number in range(200):
        collect.send(number)

    work()
    broker.join("default", timeout=10_000)

    assert sorted(seen) == list(range(200))


def test_workers_of_two_processes_share_and_double_nothing(
    broker: RedisListBroker, work: Any, url: str
) -> None:
    collect, seen = collector(broker)
    other = RedisListBroker(url)
    _, seen_by_other = collector(other)
    work()
    second = dramatiq.Worker(other, worker_threads=4, worker_timeout=50)
    second.start()
    for number in range(300):
        collect.send(number)

    try:
        until(lambda: len(seen) + len(seen_by_other) == 300)
        assert sorted(seen + seen_by_other) == list(range(300))
        assert seen_by_other
    finally:
        second.stop()
        other.close()


def test_every_queue_is_served_by_one_connection(
    broker: RedisListBroker, work: Any, server: str
) -> None:
    both = [collector(broker, queue_name=name, actor_name=name) for name in ("a", "b", "c")]
    work(threads=1)
    for collect, _ in both:
        collect.send(1)

    until(lambda: all(seen for _, seen in both))

    with redis.Redis.from_url(server) as client:
        names = [one["name"] for one in client.client_list()]
    assert sum(name.startswith("mulligan-worker:") for name in names) == 1


def test_a_worker_limited_to_some_queues_leaves_the_others(
    broker: RedisListBroker, work: Any
) -> None:
    ours, seen = collector(broker, queue_name="ours", actor_name="ours")
    others, untouched = collector(broker, queue_name="others", actor_name="others")
    work(queues={"ours"})

    others.send(1)
    ours.send(2)
    until(lambda: seen == [2])

    assert untouched == []
    assert broker.queue_length("others") == 1


def test_a_queue_declared_while_the_worker_runs_is_served(
    broker: RedisListBroker, work: Any
) -> None:
    collector(broker)
    work()

    late, seen = collector(broker, queue_name="late", actor_name="late")
    late.send(1)

    until(lambda: seen == [1])


def test_urgent_messages_overtake_across_queues(broker: RedisListBroker, work: Any) -> None:
    seen: list[str] = []

    def note(name: str) -> None:
        seen.append(name)

    later = actor(broker, note, actor_name="later", queue_name="x", priority=1)
    normal = actor(broker, note, actor_name="normal", queue_name="y")
    begun, sent = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert sent.wait(10)

    actor(broker, hold, queue_name="z").send()
    work(threads=1)
    until(lambda: begun.is_set() and broker.read_queues == {"x", "y", "z"})

    later.send("later")
    normal.send("normal")
    normal.send_with_options(args=("urgent",), priority=-1)
    sent.set()
    until(lambda: len(seen) == 3)

    assert seen == ["urgent", "normal", "later"]


def test_a_priority_that_the_broker_lacks_is_refused(broker: RedisListBroker) -> None:
    collect, _ = collector(broker)

    with pytest.raises(InvalidInput, match="one of -1, 0, 1"):
        collect.send_with_options(args=(1,), priority=7)
    with pytest.raises(InvalidInput, match="'far'"):
        actor(broker, lambda: None, actor_name="far", priority=100)


def test_a_delay_is_refused(broker: RedisListBroker) -> None:
    collect, _ = collector(broker)

    with pytest.raises(InvalidInput, match="no delays"):
        collect.send_with_options(args=(1,), delay=1_000)

    assert broker.queue_length() == 0


def test_only_declared_queues_can_be_consumed(broker: RedisListBroker) -> None:
    with pytest.raises(QueueNotFound):
        broker.consume("nowhere")


def test_messages_can_be_read_without_a_worker(broker: RedisListBroker) -> None:
    collect, _ = collector(broker)
    sent = collect.send(1)
    consumer = broker.consume("default", prefetch=1, timeout=100)

    message = next(consumer)

    assert message is not None
    assert message.message_id == sent.message_id
    collect.send(2)
    assert next(consumer) is None, "one was read and not yet acknowledged"
    consumer.ack(message)
    assert next(consumer) is not None
    consumer.close()


# --- Middleware ----------------------------------------------------------------------------------


class Recorder(Middleware):
    def __init__(self) -> None:
        self.hooks: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("before_", "after_")):
            self.hooks.append(name)
        return super().__getattribute__(name)


def test_middleware_sees_every_step(url: str) -> None:
    recorder = Recorder()
    broker = RedisListBroker(url, middleware=[recorder])
    collect, seen = collector(broker)
    collect.send(1)
    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=50)
    worker.start()
    until(lambda: seen == [1])
    worker.stop()
    broker.close()

    wanted = [
        "before_declare_queue",
        "after_declare_queue",
        "after_declare_actor",
        "before_enqueue",
        "after_enqueue",
        "before_worker_boot",
        "before_process_message",
        "after_process_message",
        "before_ack",
        "after_ack",
        "before_worker_shutdown",
        "after_worker_shutdown",
    ]
    # A thread may be at work before the worker has finished its boot.
    assert "after_worker_boot" in recorder.hooks
    positions = [recorder.hooks.index(name) for name in wanted]
    assert [name for _, name in sorted(zip(positions, wanted, strict=True))] == wanted


def test_middleware_can_skip_a_message(broker: RedisListBroker, work: Any) -> None:
    class SkipOdd(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            if message.args[0] % 2:
                raise SkipMessage()

    broker.add_middleware(SkipOdd())
    collect, seen = collector(broker)
    for number in range(10):
        collect.send(number)

    work(threads=2)
    broker.join("default", timeout=5_000)

    assert sorted(seen) == [0, 2, 4, 6, 8]


def test_an_actor_that_raises_is_not_called_again_and_frees_its_thread(
    broker: RedisListBroker, work: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fail(number: int) -> None:
        calls.append(number)
        raise ValueError("on purpose")

    failing = actor(broker, fail)
    for number in range(5):
        failing.send(number)

    work(threads=1)
    broker.join("default", timeout=5_000)

    assert calls == [0, 1, 2, 3, 4]


def test_a_message_for_an_unknown_actor_is_dropped_and_the_next_one_worked(
    broker: RedisListBroker, work: Any, caplog: pytest.LogCaptureFixture
) -> None:
    collect, seen = collector(broker)
    broker.enqueue(Message("default", "nobody", (), {}, {}))
    collect.send(1)

    work(threads=1)
    broker.join("default", timeout=5_000)

    assert seen == [1]


def test_rubbish_in_the_list_is_dropped(broker: RedisListBroker, work: Any, url: str) -> None:
    collect, seen = collector(broker)
    with redis.Redis.from_url(url) as client:
        client.rpush(queue_key("default", 0), b"\xffno message")
        client.rpush(
            queue_key("default", 0), Message("elsewhere", "collect", (9,), {}, {}).encode()
        )
    collect.send(1)

    work(threads=1)
    broker.join("default", timeout=5_000)

    assert seen == [1]


# --- Free threads, drain -------------------------------------------------------------------------


def test_no_more_is_read_than_threads_are_free(broker: RedisListBroker, work: Any) -> None:
    go = threading.Event()
    running = threading.Semaphore(0)

    def hold(number: int) -> None:
        running.release()
        assert go.wait(10)

    holding = actor(broker, hold)
    for number in range(10):
        holding.send(number)
    work(threads=3)
    for _ in range(3):
        assert running.acquire(timeout=5)

    try:
        # What could be read too much would be read at once: give the reader its chance.
        time.sleep(0.2)
        assert broker.queue_length("default") == 7
    finally:
        go.set()
    broker.join("default", timeout=5_000)


def test_a_drain_finishes_what_runs_and_leaves_the_rest(broker: RedisListBroker) -> None:
    go, started, finished = threading.Event(), threading.Event(), []

    def hold(number: int) -> None:
        started.set()
        assert go.wait(10)
        finished.append(number)

    holding = actor(broker, hold)
    for number in range(3):
        holding.send(number)
    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=50)
    worker.start()
    assert started.wait(5)

    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    until(lambda: not worker.workers[0].running)
    go.set()
    stopping.join(10)

    assert not stopping.is_alive()
    assert finished == [0]
    assert broker.queue_length("default") == 2


def test_an_idle_worker_stops_at_once(broker: RedisListBroker) -> None:
    collector(broker)
    collector(broker, queue_name="other", actor_name="other")
    worker = dramatiq.Worker(broker, worker_threads=2, worker_timeout=50)
    worker.start()
    until(lambda: broker._inlet._client_id is not None)

    began = time.monotonic()
    worker.stop()

    assert time.monotonic() - began < 0.6, "the blocking read of a second was not ended"


def test_messages_put_back_keep_their_order_and_place(broker: RedisListBroker) -> None:
    collect, _ = collector(broker)
    for number in range(3):
        collect.send(number)
    consumer = broker.consume("default", prefetch=2, timeout=500)
    taken = [next(consumer), next(consumer)]

    consumer.requeue([message for message in taken if message is not None])

    again = [next(consumer), next(consumer)]
    assert [message.args[0] for message in again if message is not None] == [0, 1]
    consumer.close()


def test_join_returns_with_many_idle_queues(broker: RedisListBroker, work: Any) -> None:
    """Consumers that take turns at reading must not keep a join from its own."""
    collect, seen = collector(broker)
    for name in "abcde":
        collector(broker, queue_name=name, actor_name=name)
    work()

    for number in range(5):
        collect.send(number)
        broker.join("default", timeout=3_000)
        assert len(seen) == number + 1


def test_join_gives_up_in_time(broker: RedisListBroker) -> None:
    collect, _ = collector(broker)
    collect.send(1)

    with pytest.raises(QueueJoinTimeout):
        broker.join("default", timeout=50)


def test_flush_drops_what_waits(broker: RedisListBroker) -> None:
    collect, _ = collector(broker)
    other, _ = collector(broker, queue_name="other", actor_name="other")
    collect.send(1)
    collect.send_with_options(args=(2,), priority=1)
    other.send(3)

    broker.flush("default")
    assert (broker.queue_length("default"), queue_length(broker)) == (0, 1)

    broker.flush_all()
    assert queue_length(broker) == 0


# --- Trouble -------------------------------------------------------------------------------------


def test_work_goes_on_after_the_server_was_away(tmp_path: Path) -> None:
    broker = RedisListBroker(broker_url_beside(ensure_server(tmp_path)))
    collect, seen = collector(broker)
    worker = dramatiq.Worker(broker, worker_threads=2, worker_timeout=50)
    worker.start()
    try:
        collect.send(1)
        until(lambda: seen == [1])

        stop_server(tmp_path)
        with pytest.raises(BrokerConnectionError):
            collect.send(2)
        ensure_server(tmp_path)

        collect.send(3)
        until(lambda: seen == [1, 3], timeout_s=3.0)
    finally:
        worker.stop()
        broker.close()
        stop_server(tmp_path)


def test_a_worker_without_a_server_stops(tmp_path: Path) -> None:
    broker = RedisListBroker(f"unix://{tmp_path}/nothing")
    collector(broker)
    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=50)
    worker.start()

    worker.stop(timeout=5_000)

    assert not any(consumer.is_alive() for consumer in worker.consumers.values())
    broker.close()


# --- Which broker --------------------------------------------------------------------------------


def test_the_queue_lies_beside_the_log_in_the_next_database(server: str) -> None:
    assert broker_url_beside(server) == server.replace("db=0", "db=1")


def test_a_server_with_no_other_database_holds_both(server: str) -> None:
    last = server.replace("db=0", "db=15")

    assert broker_url_beside(last) == last


def test_no_server_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        broker_url_beside(f"unix://{tmp_path}/nothing")


def test_other_brokers_are_taken() -> None:
    stub = make_broker("stub://")

    assert make_broker(stub) is stub
    assert queue_length(stub) == 0
    with pytest.raises(EnvironmentUnfit, match=r"dramatiq\[rabbitmq\]"):
        make_broker("amqp://localhost")


def test_an_idle_hop_takes_a_few_milliseconds(broker: RedisListBroker, work: Any) -> None:
    """A hop when idle: p50 at most 3 ms, with room for a busy machine here."""
    arrived: list[float] = []
    landed = threading.Event()

    def land() -> None:
        arrived.append(time.perf_counter())
        landed.set()

    landing = actor(broker, land)
    work(threads=8)
    hops_ms = []
    for _ in range(50):
        landed.clear()
        sent = time.perf_counter()
        landing.send()
        assert landed.wait(5)
        hops_ms.append((arrived[-1] - sent) * 1_000)

    assert statistics.median(hops_ms) < 15
