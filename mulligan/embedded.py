"""
The server of a first run: one Valkey per data directory, shared by every process that uses it.

Layout under `<data dir>/server/` (mode 0700):

    start.lock     held while someone starts or stops the server
    alive.lock     held by the server itself, for as long as it lives
    socket         the path of the unix socket it listens on
    valkey.sock    that socket, unless the path is too long for one
    valkey.pid, valkey.log, appendonlydir/

Whether a server lives is asked of the kernel, not of a pid file: the lock on `alive.lock` belongs
to an open file that the server inherits, so it ends with the server however that dies, and two
servers can never write one append-only file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from mulligan.errors import EnvironmentUnfit
from mulligan.valkey_binary import valkey_binary
from mulligan.wire import Wire, WireError
from mulligan.wire_address import Address

SOCKET_PATH_MAX_BYTES = 103
"""`sun_path` holds 104 bytes on macOS and 108 on Linux, a closing zero among them."""

START_TIMEOUT_S = 60.0
"""Bound on a start. A large append-only file loads at about a hundred megabytes a second."""

STOP_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 5.0
POLL_S = 0.01


def ensure_server(data_dir: Path) -> str:
    """
    The URL of the directory's server, started if it does not run: a `unix://` URL, database 0.

    Several processes may call this at once and get one server. It outlives them all, in a session
    of its own, until `stop_server`; after a `kill -9` of it the next call starts it again with the
    data it had.

    Raises:
        EnvironmentUnfit: no binary for this platform, a directory that can't be written, a server
            that does not come up (with what its log says) or does not answer.
    """
    home = _Home.of(data_dir)
    if home.answers():
        return home.url
    with _directory_errors(home), home.start_lock():
        # One may be coming up, or a killed one's child may still be writing its file.
        if not _wait(home.answers_or_died, START_TIMEOUT_S):
            raise EnvironmentUnfit(home.why_silent())
        if not home.answers():
            home.start()
            _wait(home.answers_or_died, START_TIMEOUT_S)
            if not home.answers():
                raise EnvironmentUnfit(home.why_silent())
    return home.url


def running_server(data_dir: Path) -> str | None:
    """The URL of the directory's server if it runs and answers; nothing is started."""
    home = _Home.of(data_dir)
    return home.url if home.answers() else None


def stop_server(data_dir: Path) -> bool:
    """
    Stop the directory's server, its data safe on disk; False: none ran.

    Raises:
        EnvironmentUnfit: it did not end within half a minute.
    """
    home = _Home.of(data_dir)
    if not home.path.is_dir():
        return False
    with _directory_errors(home), home.start_lock():
        if not home.server_lives():
            return False
        home.stop()
        if not _wait(lambda: not home.server_lives(), STOP_TIMEOUT_S):
            raise EnvironmentUnfit(
                f"the server of {home.path} (pid {home.pid()}) does not end; look into {home.log}, "
                f"and as a last resort end it with: kill -9 {home.pid()}"
            )
        home.tidy()
        return True


class _Home:
    """The folder of one server, and what can be asked of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "valkey.log"

    @classmethod
    def of(cls, data_dir: Path) -> _Home:
        return cls(data_dir.resolve() / "server")

    @property
    def socket(self) -> str:
        """The path that the server was told, since `TMPDIR` may differ from starter to caller."""
        try:
            return (self.path / "socket").read_text()
        except OSError:
            return str(self.path / "valkey.sock")

    @property
    def url(self) -> str:
        return f"unix://{quote(self.socket)}?db=0"

    def pid(self) -> int | None:
        try:
            return int((self.path / "valkey.pid").read_text())
        except (OSError, ValueError):
            return None

    @contextmanager
    def start_lock(self) -> Iterator[None]:
        """One starter or stopper at a time."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.path / "start.lock").open("a") as file:
            if not _wait(lambda: _locked(file.fileno()), START_TIMEOUT_S):
                raise EnvironmentUnfit(
                    f"another process has been starting or stopping the server of {self.path} for "
                    f"{START_TIMEOUT_S:.0f} s; see {self.log}"
                )
            yield

    def server_lives(self) -> bool:
        """To be asked under the start lock only, since asking takes the server's lock for a bit."""
        with (self.path / "alive.lock").open("a") as file:
            return not _locked(file.fileno())

    def answers(self) -> bool:
        """Whether it takes commands; while it loads its file it does not yet."""
        try:
            with _wire(self.socket) as wire:
                return bool(wire.call("PING"))
        except WireError:
            return False

    def answers_or_died(self) -> bool:
        return self.answers() or not self.server_lives()

    def start(self) -> None:
        """Start it. The caller holds the start lock and knows that none lives."""
        socket = _socket_path(self.path)
        (self.path / "socket").write_text(socket)
        for leftover in (Path(socket), self.path / "valkey.pid"):
            leftover.unlink(missing_ok=True)
        with (self.path / "alive.lock").open("a") as alive:
            _locked(alive.fileno())
            started = subprocess.run(
                self._command(socket),
                pass_fds=[alive.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.path,
                check=False,
            )
        if started.returncode != 0:
            said = started.stdout.decode(errors="replace").strip()
            raise EnvironmentUnfit(f"the built-in server did not start: {said or self.log}")

    def _command(self, socket: str) -> list[str]:
        """
        `daemonize` detaches it before it opens anything, so that it is nobody's child: no zombie
        stays with its starter. `save ""`: the append-only file is the data, and a second copy in
        another format would only be older.
        """
        options = {
            "port": "0",
            "unixsocket": socket,
            "unixsocketperm": "700",
            "dir": str(self.path),
            "pidfile": str(self.path / "valkey.pid"),
            "logfile": str(self.log),
            "daemonize": "yes",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        return [str(valkey_binary()), *arguments]

    def stop(self) -> None:
        """Ask it to end: by command, or by signal if it does not listen on its socket."""
        if self.answers():
            with suppress(WireError), _wire(self.socket) as wire:
                wire.call("SHUTDOWN")
            return
        pid = self.pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def tidy(self) -> None:
        """Leave no folder for a socket behind that lay outside this one."""
        socket = Path(self.socket)
        if socket.parent != self.path:
            socket.unlink(missing_ok=True)
            with suppress(OSError):
                socket.parent.rmdir()

    def why_silent(self) -> str:
        """What to tell a person when a start came to nothing."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-5:]
        except OSError:
            lines = []
        said = "".join(f"\n  {line}" for line in lines)
        return (
            f"the built-in server of {self.path} (pid {self.pid()}) does not answer on "
            f"{self.socket}; `mulligan down` ends it. "
            f"Its log, {self.log}, says:{said or ' nothing'}"
        )


def _socket_path(home: Path) -> str:
    """In the server's folder where the path fits, else in a short private one of its own."""
    inside = str(home / "valkey.sock")
    if len(os.fsencode(inside)) <= SOCKET_PATH_MAX_BYTES:
        return inside
    name = f"mulligan-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"
    for parent in (tempfile.gettempdir(), "/tmp"):
        folder = Path(parent) / name
        if len(os.fsencode(folder / "s")) <= SOCKET_PATH_MAX_BYTES:
            return str(_private(folder) / "s")
    raise EnvironmentUnfit(f"no path short enough for a socket; set TMPDIR to one, not {parent}")


def _private(folder: Path) -> Path:
    """The folder, which nobody but this user can enter, even if another made it first."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o170077 != 0o040000:
        raise EnvironmentUnfit(
            f"{folder} belongs to someone else or is open to others; remove it, or set TMPDIR to a "
            "folder of your own"
        )
    return folder


def _wire(socket: str) -> closing[Wire]:
    timeout_s = ANSWER_TIMEOUT_S
    return closing(
        Wire(Address(path=socket), connect_timeout_s=timeout_s, answer_timeout_s=timeout_s)
    )


def _locked(file: int) -> bool:
    """Try to take the lock of an open file, without waiting."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


@contextmanager
def _directory_errors(home: _Home) -> Iterator[None]:
    """Say which directory can't be used instead of showing a traceback."""
    try:
        yield
    except OSError as error:
        raise EnvironmentUnfit(
            f"{home.path} can't be used for the built-in server ({error.strerror}); make it "
            "writable, set MULLIGAN_DATA_DIR to another folder, or set MULLIGAN_REDIS_URL"
        ) from None
