"""`mulligan answer RUN [ANSWER]`: tell an agent what it asks."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.commands.whoami import by_option
from mulligan.errors import InvalidInput
from mulligan.replies import Answered


@click.command()
@click.argument("run")
@click.argument("answer", required=False)
@click.option("--option", "options", multiple=True, metavar="QUESTION=LABEL", help="Choose one.")
@click.option("--text", "texts", multiple=True, metavar="QUESTION=TEXT", help="In other words.")
@click.option("--node", help="The node that asks, where several do.")
@click.option("--request", help="The question by its id, as `mulligan status` shows it.")
@by_option
@json_option
def answer(
    run: str,
    answer: str | None,
    options: tuple[str, ...],
    texts: tuple[str, ...],
    node: str | None,
    request: str | None,
    by: str,
    as_json: bool,
) -> None:
    """
    Answer what an agent of RUN asks, and let it go on: in free text, or for questions with options
    by --option and --text, or as a JSON object of the answers by question id. ANSWER - reads
    standard input. `mulligan status RUN` shows what is asked.
    """
    given = _given(answer, options, texts)
    with Client() as client:
        name = client.question(run, node=node, request=request).id
        changed = client.answer(run, given, request=name, by=by)
    if as_json:
        show_json(Answered(run=run, request=name, changed=changed))
    else:
        click.echo(f"{run}: {name} {'answered' if changed else 'was answered so before'}", err=True)


def _given(answer: str | None, options: tuple[str, ...], texts: tuple[str, ...]) -> Any:
    chosen = {name: {"option": label} for name, label in _pairs("--option", options)}
    written = dict(_pairs("--text", texts))
    twice = chosen.keys() & written.keys()
    if twice:
        raise InvalidInput(f"{sorted(twice)[0]!r} is answered by --option and by --text: keep one")
    if (answer is None) == (not chosen and not written):
        raise InvalidInput(
            "say the answer once: as ANSWER (- reads standard input), or for questions with "
            "options by --option QUESTION=LABEL and --text QUESTION=TEXT"
        )
    if answer is None:
        return {**chosen, **written}
    return _from_stdin() if answer == "-" else answer


def _from_stdin() -> str:
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError:
        raise InvalidInput("what comes on standard input is not UTF-8 text") from None


def _pairs(option: str, given: Iterable[str]) -> Iterable[tuple[str, str]]:
    names: set[str] = set()
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{option} {pair!r}: write QUESTION=…, as {option} leaf=green")
        if name in names:
            raise InvalidInput(f"{option}: {name!r} is answered twice")
        names.add(name)
        yield name, value
