"""UI-1: the embedded server, with real processes that start it, share it, and die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from mulligan import embedded
from mulligan.embedded import ensure_server, running_server, stop_server
from mulligan.errors import EnvironmentUnfit

pytestmark = pytest.mark.server

START = """
import sys
from pathlib import Path
from mulligan.embedded import ensure_server
print(ensure_server(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stop_server(tmp_path)


def starter(data_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def server_pid(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.info("server")["process_id"])


def test_it_is_set_up_as_a_log_needs_it(data_dir: Path) -> None:
    url = ensure_server(data_dir)

    with redis.Redis.from_url(url) as client:
        config = client.config_get("*")
    assert config["appendonly"] == "yes"
    assert config["appendfsync"] == "everysec"
    assert config["maxmemory-policy"] == "noeviction"
    assert config["port"] == "0"


def test_only_the_user_can_reach_it(data_dir: Path) -> None:
    ensure_server(data_dir)

    assert (data_dir / "server").stat().st_mode & 0o777 == 0o700


def test_it_outlives_its_starter_killed_with_9(data_dir: Path) -> None:
    first = starter(data_dir)
    assert first.stdout is not None
    url = first.stdout.readline().strip()
    pid = server_pid(url)

    first.kill()
    first.communicate()

    assert ensure_server(data_dir) == url
    assert server_pid(url) == pid


def test_an_interrupt_from_the_terminal_does_not_reach_it(data_dir: Path) -> None:
    first = starter(data_dir)
    assert first.stdout is not None
    url = first.stdout.readline().strip()
    pid = server_pid(url)

    os.killpg(first.pid, signal.SIGINT)
    first.communicate()

    assert os.getsid(pid) != first.pid
    assert server_pid(url) == pid


def test_three_that_start_at_once_get_one_server(data_dir: Path) -> None:
    starters = [starter(data_dir) for _ in range(3)]
    urls = {one.stdout.readline().strip() for one in starters if one.stdout is not None}
    for one in starters:
        one.communicate()

    assert len(urls) == 1
    assert running_server(data_dir) == urls.pop()
    log = (data_dir / "server" / "valkey.log").read_text()
    assert log.count("Ready to accept connections") == 1


def test_it_comes_back_with_its_data_after_a_kill(data_dir: Path) -> None:
    url = ensure_server(data_dir)
    with redis.Redis.from_url(url) as client:
        client.set("kept", "yes")
    pid = server_pid(url)

    os.kill(pid, signal.SIGKILL)
    until(lambda: running_server(data_dir) is None)

    with redis.Redis.from_url(ensure_server(data_dir)) as client:
        assert client.get("kept") == b"yes"
    assert server_pid(url) != pid


def test_stopping_keeps_the_data_and_says_whether_one_ran(data_dir: Path) -> None:
    assert not stop_server(data_dir / "nothing here")
    with redis.Redis.from_url(ensure_server(data_dir)) as client:
        client.set("kept", "yes")

    assert stop_server(data_dir)
    assert not stop_server(data_dir)
    assert running_server(data_dir) is None

    with redis.Redis.from_url(ensure_server(data_dir)) as client:
        assert client.get("kept") == b"yes"


def test_a_directory_with_a_long_and_odd_path_works(data_dir: Path) -> None:
    long = data_dir / ("ö" * 60) / 'with "quotes" and spaces'
    try:
        url = ensure_server(long)

        assert running_server(long) == url
        assert ensure_server(long) == url
        outside = Path((long / "server" / "socket").read_text()).parent
        assert outside.stat().st_mode & 0o777 == 0o700
    finally:
        assert stop_server(long)
    assert not outside.exists()


def test_the_socket_is_found_whatever_tmpdir_says_later(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = data_dir / ("x" * 120)
    try:
        url = ensure_server(long)
        monkeypatch.setattr(embedded.tempfile, "tempdir", str(data_dir))

        assert ensure_server(long) == url
    finally:
        stop_server(long)


def test_a_server_whose_socket_was_removed_can_still_be_stopped(data_dir: Path) -> None:
    ensure_server(data_dir)
    (data_dir / "server" / "valkey.sock").unlink()

    assert stop_server(data_dir)
    assert not stop_server(data_dir)


def test_a_server_that_hangs_is_not_joined_by_a_second_one(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = server_pid(ensure_server(data_dir))
    monkeypatch.setattr(embedded, "START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(embedded, "ANSWER_TIMEOUT_S", 0.1)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(EnvironmentUnfit, match=f"pid {pid}.*mulligan down"):
            ensure_server(data_dir)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(EnvironmentUnfit, match="MULLIGAN_DATA_DIR"):
        ensure_server(tmp_path / "file")


def test_a_server_that_cannot_start_says_why(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = data_dir / "server" / "appendonlydir"
    broken.mkdir(parents=True)
    (broken / "appendonly.aof.manifest").write_text("not a manifest\n")

    with pytest.raises(EnvironmentUnfit, match=r"(?s)valkey\.log.*manifest"):
        ensure_server(data_dir)
