"""What a process logs: JSON for programs, words for people, nothing of chatty libraries."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from mulligan.logs import bound, configure_logs, stack_of
from mulligan.settings import LogLevel


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logged(level: LogLevel = "info") -> tuple[io.StringIO, Any]:
    stream = io.StringIO()
    configure_logs(level, stream=stream)
    return stream, structlog.get_logger("mulligan.here")


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def raise_about(secret: str) -> None:
    raise ValueError(len(secret))


def test_a_line_is_json_with_what_is_bound() -> None:
    stream, log = logged()

    with bound(run="brief-1", node="join", attempt=2):
        log.info("tool_started", tool="search")
    log.info("afterwards")

    first, second = lines(stream)
    assert first["event"] == "tool_started"
    assert (first["run"], first["node"], first["attempt"]) == ("brief-1", "join", 2)
    assert (first["tool"], first["level"], first["logger"]) == ("search", "info", "mulligan.here")
    assert first["timestamp"].endswith("Z")
    assert "run" not in second


def test_the_level_is_a_floor() -> None:
    stream, log = logged("warning")

    log.info("unimportant")
    log.warning("important")

    assert [line["event"] for line in lines(stream)] == ["important"]


def test_ovr10_the_stack_of_an_error_says_where_and_which_kind_and_quotes_nothing() -> None:
    secret = "what the model said"
    try:
        try:
            raise_about(secret)
        except ValueError as error:
            raise KeyError(secret) from error
    except KeyError as error:
        told = stack_of(error)

    assert secret not in told
    assert told.endswith("KeyError")
    assert told.index("in raise_about") < told.index("ValueError\n") < told.index("KeyError")


def test_a_stack_is_in_the_line_and_its_locals_are_not() -> None:
    stream, log = logged()

    def speak() -> None:
        secret = "what the model said"
        raise ValueError(len(secret))

    try:
        speak()
    except ValueError:
        log.exception("failed")

    (line,) = lines(stream)
    assert "ValueError" in line["exception"]
    assert "what the model said" not in line["exception"]


def test_other_libraries_speak_up_from_a_warning_on_even_at_debug() -> None:
    stream, _ = logged("debug")

    logging.getLogger("openai").debug("request with a prompt")
    logging.getLogger("litellm.anything").info("chatter")
    logging.getLogger("dramatiq.worker").warning("trouble")

    assert [line["event"] for line in lines(stream)] == ["trouble"]


def test_in_a_terminal_lines_are_for_people() -> None:
    stream = Terminal()
    configure_logs("info", stream=stream)

    log = structlog.get_logger("mulligan.here")
    log.info("worker_started")
    try:
        raise_about("what the model said")
    except ValueError:
        log.exception("failed")

    assert "worker_started" in stream.getvalue()
    assert "raise_about" in stream.getvalue()
    assert "'what the model said'" not in stream.getvalue(), "no locals"
    assert not stream.getvalue().startswith("{")


def test_setting_up_again_does_not_double_lines() -> None:
    logged()
    stream, log = logged()

    log.info("once")

    assert len(lines(stream)) == 1
