"""
What waits for a person, shown with the command that settles it.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from mulligan.commands.printing import clock, legible
from mulligan.events.payload import canonical
from mulligan.projections.open_requests import OpenRequest


def show_waiting(run: str, request: OpenRequest) -> None:
    """Print what is asked, whole, and how to answer it."""
    click.echo()
    for line in (*_asked(request), *_how(run, request)):
        click.echo(legible(line))


def _asked(request: OpenRequest) -> Iterator[str]:
    if request.kind == "signal":
        until = f" until {clock(request.until_ms)} (UTC)" if request.until_ms is not None else ""
        yield f"{request.line}{until}"
        if request.data_schema is not None:
            yield f"    with data of {canonical(request.data_schema).decode()}"
        return
    who = f"{request.node} → {request.agent}" if request.agent else request.node
    if request.kind == "approval":
        yield f"{who} wants to call {request.tool} ({request.effect}; {request.id}) with:"
        if request.arguments is not None:
            yield f"    {canonical(request.arguments.value).decode()}"
        return
    yield f"{who} asks ({request.id}):"
    for text in (request.message or "").split("\n") if request.message else ():
        yield f"    {text}"
    for one in request.questions:
        yield f"    {one.id} [{one.header}]: {one.question}"
        for option in one.options:
            yield f"        {option.label}: {option.description}".rstrip(": ")


def _how(run: str, request: OpenRequest) -> Iterator[str]:
    if request.kind == "signal":
        yield f"  mulligan signal {run} {request.signal} --data '…'"
        return
    if request.kind == "approval":
        yield f"  mulligan approve {run} {request.id}"
        yield f"  mulligan deny {run} {request.id} --reason '…'"
        return
    told = ((one.id, "--option" if one.options else "--text") for one in request.questions)
    answer = " ".join(f"{option} {name}=…" for name, option in told) or "'…'"
    yield f"  mulligan answer {run} --request {request.id} {answer}"
    if any(one.options for one in request.questions):
        yield "  (--text QUESTION=… for an answer in other words)"
