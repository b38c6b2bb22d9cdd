"""A bridge as people start it, and callers of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

from mulligan.schemas.web_rules import WebRules
from mulligan.testing.waiting import until
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.client import BridgeClient
from mulligan.tools.web_use.codes import WebUseFailed

CANARY = "canary-8c1f & ümlaut"
RULES = WebRules(allow=("127.0.0.1", "localhost"), networks=("127.0.0.0/8",))
_numbers = count(1)


class BridgeProcess:
    """`mulligan browser` in a process, with what it keeps in `folder`."""

    def __init__(self, folder: Path, *windows: str, **environment: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.log = folder / "bridge.log"
        self._windows = [part for window in windows for part in ("--window", window)]
        self._environment = {
            "MULLIGAN_DATA_DIR": str(folder),
            "SITE_PASSWORD": CANARY,
            "SHORT_PIN": "1234",
            "MULLIGAN_BROWSER_SECRETS": json.dumps(
                {"SITE_PASSWORD": ["127.0.0.1"], "SHORT_PIN": ["127.0.0.1"]}
            ),
            "MULLIGAN_BROWSER_FILES": str(folder / "files"),
            "MULLIGAN_LOG_LEVEL": "debug",
            **environment,
        }
        self.process: Any = None
        self.start()

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / "browser.sock"

    def start(self, **environment: str) -> None:
        """Start it, and wait until it listens."""
        if self.process is not None:
            self._hang_up()
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mulligan.cli", "browser", *self._windows],
                env={**os.environ, **self._environment, **environment},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert "listening" in self.process.stdout.readline(), self.log.read_text()

    def stop(self) -> None:
        """SIGTERM, as people end it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
        self._hang_up()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(10)
        self._hang_up()

    def _hang_up(self) -> None:
        self.process.stdout.close()

    def kill_chromium(self) -> None:
        """SIGKILL for its Chromium, and nothing else."""
        for pid in _below(self.process.pid):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"chrom" in command[0] and not any(b"--type=" in part for part in command):
                os.kill(pid, signal.SIGKILL)

    def caller(self, session: str, **options: Any) -> Browsing:
        """Somebody with a window of their own."""
        return Browsing(
            self,
            Caller(owner=f"session:{session}", action="", make_window=True, rules=RULES),
            **options,
        )

    def run(self, run: str, window: str | None = "main", **options: Any) -> Browsing:
        """A run with a window of origin."""
        caller = Caller(owner=f"{run}:agent", action="", run=run, window=window, rules=RULES)
        return Browsing(self, caller, **options)


class Browsing:
    """A caller who keeps the newest page token and observation, as an agent would."""

    def __init__(self, bridge: BridgeProcess, caller: Caller, **changes: Any) -> None:
        self.bridge = bridge
        self.page: str | None = None
        self.seen: dict[str, Any] = {}
        plain = {name: getattr(caller, name) for name in caller.__struct_fields__}
        self.given = Caller(**{**plain, **changes})

    def as_caller(self, act_id: str | None = None) -> Caller:
        """The caller of one command."""
        plain = {name: getattr(self.given, name) for name in self.given.__struct_fields__}
        return Caller(**{**plain, "action": act_id or f"{self.given.owner}.{next(_numbers)}"})

    def do(self, act_id: str | None = None, *, timeout_ms: int = 20_000, **command: Any) -> Any:
        """One command as it is given; the result."""
        with BridgeClient(self.bridge.socket) as client:
            result = client.call(command, self.as_caller(act_id), timeout_ms=timeout_ms)
        self.page = result.get("page", self.page)
        seen = result.get("observation", self.seen)
        self.seen = result if isinstance(seen, str) else seen
        return result

    def fails(self, **command: Any) -> WebUseFailed:
        """One command that fails."""
        try:
            result = self.do(**command)
        except WebUseFailed as failed:
            return failed
        raise AssertionError(f"it did not fail: {result}")

    def observe(self, url: str) -> Any:
        """Open a page."""
        return self.do(command="observe", url=url)

    def look(self) -> Any:
        """Observe the page again."""
        return self.do(command="observe", page=self.page)

    def act(self, action: str, what: str | None = None, **more: Any) -> dict[str, Any]:
        """The arguments of an act on the newest observation."""
        element = {"element": self.ref(what)} if what else {}
        return {
            **{"command": "act", "action": action, "page": self.page},
            **{"observation": self.seen["observation"], **element, **more},
        }

    def ref(self, what: str, nth: int = 0) -> str:
        """The reference of `button "Save"`."""
        found = re.findall(
            rf"{re.escape(what)}(?: \[[^\]]*\])*? \[ref=(\w+)\]", self.seen["snapshot"]
        )
        assert found, f"no {what} in\n{self.seen['snapshot']}"
        return str(found[nth])

    def close_all(self) -> None:
        """Close every page, so that none goes on in the background of other tests."""
        for page in self.do(command="list_pages")["pages"]:
            self.do(command="close", page=page["page"])

    def until_listed(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many pages are in the list."""
        pages: list[dict[str, Any]] = []

        def listed() -> bool:
            pages[:] = self.do(command="list_pages")["pages"]
            return len(pages) == count

        until(listed, 20.0)
        return pages


def saved(*conditions: str) -> list[dict[str, str]]:
    """Evidence that texts appear."""
    return [{"condition": "text_contains", "value": text} for text in conditions]


def _below(pid: int) -> list[int]:
    """The processes that descend from one."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found
