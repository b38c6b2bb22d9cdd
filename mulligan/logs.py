"""
What a process says about itself: structlog, as JSON lines or, in a terminal, for people.

Everything goes to stderr; stdout belongs to results. `run`, `node` and `attempt` are bound where
work begins (`bound`), and stand in every line written there, by users' functions and tools too.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from contextvars import Token
from typing import Any, TextIO

import structlog

from mulligan.settings import LogLevel

_CHATTY = ("dramatiq", "httpcore", "httpx", "httpx2", "litellm", "LiteLLM", "openai", "urllib3")
"""Libraries whose own lines below a warning drown ours; some print prompts and keys."""


def configure_logs(level: LogLevel, *, stream: TextIO | None = None) -> None:
    """Set up logging for this process; again replaces what was set up before."""
    out = sys.stderr if stream is None else stream
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=_ending(people=out.isatty())
        )
    )
    logging.getLogger().handlers = [handler]
    logging.getLogger().setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


class bound:
    """
    In this context every line names the run, and task, node and attempt if known. A class, since
    structlog's own takes four times as long, at each step of each run. Not to be entered twice.
    """

    __slots__ = ("_before", "_known")

    def __init__(
        self,
        *,
        run: str,
        task: str | None = None,
        node: str | None = None,
        attempt: int | None = None,
    ) -> None:
        given = {"run": run, "task": task, "node": node, "attempt": attempt}
        self._known = {name: value for name, value in given.items() if value is not None}
        self._before: Mapping[str, Token[Any]] = {}

    def __enter__(self) -> None:
        self._before = structlog.contextvars.bind_contextvars(**self._known)

    def __exit__(self, *error: object) -> None:
        structlog.contextvars.reset_contextvars(**self._before)


def stack_of(error: BaseException) -> str:
    """
    Where an error that is not ours came from, and of which kind it and those before it are; not
    what they say, which may quote what a model said (OVR-10).
    """
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{stack_of(earlier)}\n" if earlier is not None else ""
    return f"{before}{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}"


def _ending(*, people: bool) -> list[structlog.typing.Processor]:
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    # The locals of a stack may hold what a model said: only its lines are written.
    if people:
        plain = structlog.dev.plain_traceback
        return [remove_meta, structlog.dev.ConsoleRenderer(exception_formatter=plain)]
    return [
        remove_meta,
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(),
    ]
