"""Nobody pays for what they do not use: which modules a name or a command loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mulligan.testing.server import ValkeyServer

HEAVY = (
    "asyncio",
    "dramatiq",
    "dotenv",
    "httpx2",
    "jsonschema",
    "jsonschema_rs",
    "litellm",
    "openai",
    "opentelemetry",
    "pydantic",
    "redis",
    "ssl",
    "structlog",
)


def loaded(program: str, among: tuple[str, ...]) -> set[str]:
    """Which of these modules a new interpreter holds after `program`."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(among) & set(ended.stderr.split())


def test_the_package_alone_is_light() -> None:
    assert loaded("import mulligan", HEAVY) == set()


@pytest.mark.parametrize("module", ["mulligan.events.facts", "mulligan.events.codec"])
def test_whoever_reads_events_needs_no_server_and_no_validators(module: str) -> None:
    assert loaded(f"import {module}", HEAVY) == set()


def test_the_command_line_loads_a_command_when_it_is_called() -> None:
    program = "import mulligan.cli\ntry: mulligan.cli.main(['--help'])\nexcept SystemExit: pass"

    assert loaded(program, HEAVY) == set()


@pytest.mark.parametrize(
    "module",
    ["status", "trace", "enqueue", "worker", "run", "verify", "tail", "cancel", "demo"],
)
def test_no_command_loads_litellm_before_a_model_is_asked(module: str) -> None:
    assert loaded(f"import mulligan.commands.{module}", ("litellm", "openai")) == set()


def test_a_worker_without_such_models_never_loads_litellm() -> None:
    assert loaded("import mulligan.actors.assemble", ("litellm", "openai")) == set()


def test_who_sends_no_spans_loads_nothing_that_would() -> None:
    """redis-py loads OpenTelemetry's metrics wherever they are installed; the rest is ours."""
    program = (
        "from mulligan.actors.tracing import tracing_of; from mulligan.settings import Settings\n"
        "assert tracing_of(Settings(), lambda run, after: []).flush() is None"
    )

    ours = ("mulligan.actors.otel", "opentelemetry.sdk.trace", "opentelemetry.exporter")
    assert loaded(program, ours) == set()


@pytest.mark.server
@pytest.mark.parametrize("command", ["status", "list"])
def test_a_look_at_the_log_needs_nothing_but_the_log(server: ValkeyServer, command: str) -> None:
    """What a person waits for at a prompt is mostly imports: 0.6 s with redis-py and pydantic."""
    program = (
        f"import os; os.environ['MULLIGAN_REDIS_URL'] = {server.url!r}; import mulligan.cli\n"
        f"try: mulligan.cli.main([{command!r}])\nexcept SystemExit as end: assert not end.code"
    )

    assert loaded(program, HEAVY) == set()


@pytest.mark.parametrize(("module", "most"), [("mulligan", 15), ("mulligan.commands.status", 200)])
def test_few_modules_are_loaded(module: str, most: int) -> None:
    """Counted, since time depends on the machine: 8 and 181 when this was last changed."""
    program = f"import sys; before = len(sys.modules); import {module}"
    ended = subprocess.run(
        [sys.executable, "-c", f"{program}; print(len(sys.modules) - before)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert int(ended.stdout) <= most


@pytest.mark.parametrize(
    "module",
    ["mulligan.actors.assemble", "mulligan.tools.web_use.tool", "mulligan.commands.doctor"],
)
def test_only_the_bridge_needs_playwright(module: str) -> None:
    assert loaded(f"import {module}", ("playwright",)) == set()
