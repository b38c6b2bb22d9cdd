"""
Where a page's examples are run: a folder, an empty log on a real server, a scripted model over
HTTP, a worker's threads in this process. Commands of mulligan that end are given in this process,
since a process of its own costs a second each; those that stay are processes, ended with the page.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.cli import main
from mulligan.client import Client
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow
from mulligan.schemas.mcp_tools import McpServer, OfferedTool
from mulligan.settings import load_settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.waiting import until
from mulligan.tools.mcp.catalogue import ServerCatalogue
from mulligan.workflows.article.steps import brief
from tests.docs.examples import ROOT, Block, commands, parts, printed_by, says

STAYS = {
    "browser": "listening",
    "serve": "serving http://",
    "worker": "worker_started",
}
"""Commands that run until they are told to stop, and what they say once they are up."""
DEPLOYMENT = ("MULLIGAN_REDIS_URL", "MULLIGAN_BROKER_URL", "MULLIGAN_PARTITIONS")
"""Variables that lead to servers which are not here."""
UP_S = 30.0
MINIMAL = {"name": "flow", "nodes": [{"id": "only", "kind": "agent", "prompt": "Say it."}]}
"""Where a page shows a part of a workflow alone."""
TRACKER = ("find", "create")
"""What the MCP server offers that is only reached over a network."""
ALERT = {"alert", "expr", "for"}

Scene = Callable[["Shell"], dict[str, str] | None]
"""Arranges what a command needs, and says what stands for the names in it: `RUN` for a run."""


class Shell:
    """One page's folder and what is up for it."""

    def __init__(self, url: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.url = url
        self.folder = folder
        self.model = ScriptedModel({"turns": []})
        self.names: dict[str, Any] = {"__name__": "example"}
        self.printed: list[str] = []
        self._patch = patch
        self._ports: dict[str, str] = {}
        self._flow: dict[str, Any] = MINIMAL
        self._until = contextlib.ExitStack()
        self._works = False
        self._runs = 0

    def __enter__(self) -> Shell:
        self._until.enter_context(self.model)
        for name in [one for one in os.environ if one.startswith("MULLIGAN_")]:
            self._patch.delenv(name)
        self.set("MULLIGAN_REDIS_URL", self.url)
        self.set("MULLIGAN_API_BASE", self.model.url)
        self.set("MULLIGAN_DATA_DIR", str(self.folder / ".mulligan"))
        self.set("OPENAI_API_KEY", "none")
        self.set("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        self.set("PYTHONPATH", f"{ROOT}:{self.folder}")
        self._patch.chdir(self.folder)
        self._patch.syspath_prepend(str(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._until.close()
        for file in self.folder.glob("*.py"):
            sys.modules.pop(file.stem, None)

    def set(self, name: str, value: str) -> None:
        self._patch.setenv(name, value)

    # --- What scenes ask for ----------------------------------------------------------------------

    def work(self) -> None:
        """Have a worker, from here to the page's end."""
        if self._works:
            return
        self._works = True
        runtime = assemble(load_settings())
        self._until.callback(runtime.close)
        self._until.enter_context(working(runtime, threads=4, drain_s=2))

    def run(self, run: str, flow: str, given: Any, status: str) -> None:
        """Have a run that stands there: ended, or paused for a reason."""
        self.work()
        with Client() as client:
            client.enqueue(flow, given, run_id=run)
            until(
                lambda: status in (client.status(run).status, client.status(run).reason),
                UP_S,
                lambda: f"{run} is {client.status(run)}, not {status}",
            )

    def serve(self) -> None:
        """Have the API."""
        self._stays(["mulligan", "serve"])

    def write(self, files: Mapping[str, str]) -> None:
        """Have files, by name."""
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def next_number(self) -> int:
        """A number that no run of this page has yet."""
        self._runs += 1
        return self._runs

    # --- Blocks -----------------------------------------------------------------------------------

    def keep(self, block: Block) -> None:
        """Have the file that a block is, if it is one."""
        if block.file is not None:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")

    def take(self, block: Block, scenes: dict[str, Scene]) -> None:
        """
        Do with a block what a reader would.

        Raises:
            Exception: whatever is wrong with it.
        """
        match block.language:
            case "console":
                self._console(block.text, scenes)
            case "python" if block.file is not None:
                importlib.import_module(Path(block.file).stem)
            case "python":
                self._python(block)
            case "yaml":
                self._yaml(block)
            case "json":
                self._json(msgspec.json.decode(block.text))
            case "markdown":
                assert brief(block.text)["sources"], "an article rests on sources"
            case "text":
                pass  # what something looks like; nobody types it
            case _:
                raise AssertionError(f"nobody knows how to run {block.language!r}")

    def _python(self, block: Block) -> None:
        if "client" in block.text.lower():
            self.work()
        out = io.StringIO()
        text = block.text.replace("range(1_000)", "range(50)")
        with contextlib.redirect_stdout(out):
            exec(compile(text, block.place, "exec"), self.names)
        _compare(printed_by(block.text), out.getvalue().splitlines())

    def _json(self, data: dict[str, Any]) -> None:
        """Those that are files are read by the commands that name them."""
        for server in data.get("mcpServers", {}).values():
            command = main.get_command(click.Context(main), server["args"][0])
            assert command is not None
            command.make_context("mcp", server["args"][1:])

    def _yaml(self, block: Block) -> None:
        data = yaml.safe_load(block.text)
        if "groups" in data:
            for rule in data["groups"][0]["rules"]:
                assert {"alert", "expr"} <= set(rule) <= ALERT, rule
        elif "turns" in data:
            ScriptedModel(data)
        else:
            self._workflow(data, block)

    def _workflow(self, data: dict[str, Any], block: Block) -> None:
        """A workflow is compiled; of a part of one, with the rest of the page's."""
        whole = data if "nodes" in data else {**self._flow, **data}
        file = self.folder / (block.file or "flow.yaml")
        if block.file is None:
            file.write_bytes(msgspec.json.encode(whole))
        self._flow = whole
        compile_plan(load_workflow(str(file)), default_model="scripted/any", catalogue=Offers())

    # --- Consoles ---------------------------------------------------------------------------------

    def _console(self, text: str, scenes: dict[str, Scene]) -> None:
        for command in commands(text):
            before = len(self.printed)
            line = command.line
            for one, scene in scenes.items():
                if line.startswith(one):
                    for name, stands in (scene(self) or {}).items():
                        line = line.replace(name, stands)
            try:
                self._line(self._here(line))
                _compare([self._here(one) for one in command.prints], self.printed[before:])
            except Exception as error:
                raise AssertionError(f"{command.line}\n{error}") from error

    def _here(self, line: str) -> str:
        """With the ports that are free on this machine, and the model that plays a script."""
        line = line.replace("openai/gpt-5-mini", "scripted/any")
        for port, free in self._ports.items():
            line = line.replace(f":{port}", f":{free}")
        return line

    def _line(self, line: str) -> None:
        ends_with = re.search(r"# ends with (\d)", line)
        given: str | None = None
        for follows, words in parts(line):
            if words[0] == "export":
                self._export(*words[1].split("=", 1))
            elif words[0] == "echo":
                given = " ".join(words[1:]) + "\n"
            elif words[0] == "make":
                _ended(["make", "--dry-run", *words[1:]], ROOT)
            elif words[0] == "pytest":
                _ended([sys.executable, "-m", *words, "--collect-only", "-q"], ROOT)
            elif words[0] != "mulligan":
                self.printed += _ended(words, self.folder)
            elif words[1] == "scripted-model":
                self._play(Path(words[2]), words[words.index("--port") + 1])
            elif words[1] in STAYS:
                self._stays(words)
            else:
                assert follows != "&", "a command that ends by itself needs no &"
                self._mulligan(words[1:], given, int(ends_with[1]) if ends_with else 0)

    def _export(self, name: str, value: str) -> None:
        """Set a variable, and see that it is read; the server stays the test's."""
        self.set(name, re.sub(r"[^\s,]*…", self._printed_like, value))
        load_settings()
        if name in DEPLOYMENT:
            self._patch.delenv(name)
            self.set("MULLIGAN_REDIS_URL", self.url)

    def _printed_like(self, shown: re.Match[str]) -> str:
        words = [word for line in self.printed for word in line.split() if says(shown[0], word)]
        assert words, f"nothing like {shown[0]} was printed"
        return words[-1]

    def _mulligan(self, words: list[str], given: str | None, ends_with: int) -> None:
        if words[0] == "enqueue":
            self.work()
        done = CliRunner().invoke(main, words, input=given)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == ends_with, (done.exit_code, done.output)
        self.printed += done.stdout.splitlines()

    def _play(self, script: Path, port: str) -> None:
        """One model is enough: the page's, which other workflows of the page ask too."""
        self.model.play(yaml.safe_load(script.read_text(encoding="utf-8")))
        self._ports[port] = self.model.url.rpartition(":")[2].removesuffix("/v1")

    def _stays(self, words: list[str]) -> None:
        command = words[1]
        if command == "browser" and os.environ.get("BROWSER_TESTS") == "no":
            return
        if command == "serve":
            self._ports["8810"] = _free_port()
            words = [*words, "--port", self._ports["8810"]]
        words = re.sub(r"--processes \d+", "--processes 1", " ".join(words)).split(" ")
        log = self.folder / f"{self.next_number()}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "mulligan.cli", *words[1:]],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._until.callback(process.wait, 30)
        self._until.callback(process.terminate)
        up = STAYS[command]
        until(lambda: up in log.read_text() or process.poll() is not None, UP_S, log.read_text)
        assert process.poll() is None, log.read_text()
        self.printed += log.read_text().splitlines()


class Offers:
    """Asks servers that are commands for their tools; those over HTTP are not there."""

    def tools(self, server: McpServer) -> dict[str, OfferedTool]:
        if server.url is None:
            return ServerCatalogue().tools(server)
        return {
            name: OfferedTool(name=name, description="", parameters={"type": "object"})
            for name in TRACKER
        }


def _free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def _compare(shown: list[str], printed: list[str]) -> None:
    """Lines that are shown were printed, in that order."""
    rest: Iterator[str] = iter(printed)
    for line in shown:
        assert any(says(line, one) for one in rest), f"not printed: {line}\nbut: {printed}"


def _ended(words: list[str], folder: Path) -> list[str]:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
