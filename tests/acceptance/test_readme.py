"""The README's examples, run as they stand there."""

from __future__ import annotations

import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from mulligan.cli import main
from mulligan.client import Client
from mulligan.embedded import running_server, stop_server
from mulligan.settings import Settings
from mulligan.testing.scripted_model import ScriptedModel

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MULLIGAN = [sys.executable, "-m", "mulligan.cli"]


def file_block(name: str) -> str:
    """The block that the README introduces as the file `name`."""
    found = re.search(rf"`{re.escape(name)}`[^\n]*:\n\n```\w+\n(.*?)```", README, re.DOTALL)
    assert found is not None, name
    return found[1]


def command(beginning: str) -> tuple[list[str], str]:
    """The command that begins so in the README, and the line that it says is printed."""
    found = re.search(rf"^\$ {re.escape(beginning)}(.*)\n(.*)\n", README, re.MULTILINE)
    assert found is not None, beginning
    return [*MULLIGAN, *shlex.split(beginning + found[1])[1:]], found[2]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name in ("brief.yaml", "my_tools.py", "script.yaml"):
        (tmp_path / name).write_text(file_block(name), encoding="utf-8")
    yield tmp_path
    data = tmp_path / "data"
    if running_server(data) is not None:
        Client(Settings(redis_url=None, data_dir=data)).close()  # its runs are accounted for
    stop_server(data)


def environment(folder: Path, api_base: str) -> dict[str, str]:
    return {
        **os.environ,
        "MULLIGAN_API_BASE": api_base,
        "MULLIGAN_DATA_DIR": str(folder / "data"),
        "MULLIGAN_REDIS_URL": "",
        "PYTHONPATH": f"{ROOT}:{folder}",
    }


def test_the_workflow_prints_what_the_readme_says(folder: Path) -> None:
    run, printed = command("mulligan run")
    with ScriptedModel(folder / "script.yaml") as model:
        done = subprocess.run(
            run,
            cwd=folder,
            env=environment(folder, model.url),
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert (0, printed) == (done.returncode, done.stdout.strip()), done.stderr


def test_the_python_example_asks_for_a_run_that_a_worker_works(folder: Path) -> None:
    example = re.search(r"The same in Python:\n\n```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    with ScriptedModel(folder / "script.yaml") as model:
        env = environment(folder, model.url)
        worker = subprocess.Popen([*MULLIGAN, "worker"], cwd=folder, env=env)
        try:
            done = subprocess.run(
                [sys.executable, "-c", example[1]],
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
                timeout=60,
            )
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(60)

    assert (0, "tea: Tea is a plant.") == (done.returncode, done.stdout.strip()), done.stderr


TELL = """
import pathlib, pickle
pathlib.Path("events").write_bytes(pickle.dumps(list(done.events)))
"""
"""Has the example leave the events of its call behind."""


def test_the_single_agent_prints_facts_and_what_it_used(folder: Path, accounts: Any) -> None:
    example = re.search(r"```python\n(from mulligan import invoke\n.*?)```", README, re.DOTALL)
    assert example is not None
    with ScriptedModel(folder / "script.yaml") as model:
        done = subprocess.run(
            [sys.executable, "-c", example[1] + TELL],
            cwd=folder,
            env=environment(folder, model.url),
            capture_output=True,
            text=True,
            timeout=60,
        )
    accounts.add(pickle.loads((folder / "events").read_bytes()))

    assert (0, "['Tea is a plant.'] 0") == (done.returncode, done.stdout.strip()), done.stderr


def test_every_command_that_it_names_is_there_with_those_options() -> None:
    lines = re.findall(r"^\$ (.*?)(?: +#.*| &)?$", README, re.MULTILINE)
    named = [
        part[part.index("mulligan ") :]
        for line in lines
        for part in line.split("; ")
        if "mulligan " in part
    ]
    assert len(named) > 12, named
    for words in map(shlex.split, named):
        command = main.get_command(click.Context(main), words[1])
        assert command is not None, words
        command.make_context(words[1], words[2:])


def test_the_cut_off_text_is_refused_as_cut_off(folder: Path) -> None:
    (folder / "city.json").write_text(
        '{"type": "object", "properties": {"city": {"type": "string"}}}', encoding="utf-8"
    )
    line = re.search(r"^\$ echo '(.*)' \| (mulligan check-output .*)$", README, re.MULTILINE)
    assert line is not None
    done = subprocess.run(
        [*MULLIGAN, *shlex.split(line[2])[1:]],
        input=line[1],
        cwd=folder,
        env=environment(folder, ""),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert 1 == done.returncode
    assert '"truncated"' in done.stdout


def test_every_folder_is_told_of() -> None:
    told = set(re.findall(r"^\| `(\w+)/`", README, re.MULTILINE))
    there = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"tests"}

    assert there - told == set()
