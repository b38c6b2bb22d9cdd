"""`mulligan gates FILE`: judge a Markdown text, without a model or Redis."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mulligan.commands.printing import json_option, legible, show_json, table
from mulligan.errors import InvalidInput
from mulligan.workflows.article.gates.judge import Report, report_on
from mulligan.workflows.article.gates.rules import Rules, rules_from

MOST_BYTES = 4 * 1024 * 1024
"""Larger files are no articles; this one takes some ten seconds."""
FAILED = 1


class GatesReport(Report, frozen=True, kw_only=True):
    """
    What is printed: the report on the `file`. It is a quality report too, so that a repair can
    start from it.
    """

    file: str


@click.command()
@click.argument("file")
@click.option("--config", metavar="FILE", help="YAML: profile, brief, gates, phrases of your own.")
@json_option
def gates(file: str, config: str | None, as_json: bool) -> None:
    """
    Judge a Markdown file (`-`: standard input) by gates that need no model.

    Lines and columns count from 1; columns are characters of the line as it stands in the file.
    Exit status: 0 all gates pass, 1 one fails, 2 bad input.
    """
    rules = _rules(config)
    report = report_on(_text(file), rules)
    shown = GatesReport(
        file=file, **{name: getattr(report, name) for name in Report.__struct_fields__}
    )
    if as_json:
        show_json(shown)
    else:
        _show(shown)
    sys.exit(0 if report.overall_passed else FAILED)


def _text(file: str) -> str:
    """The text of a file. Raises InvalidInput if there is none."""
    data = sys.stdin.buffer.read(MOST_BYTES + 1) if file == "-" else _read(file)
    if len(data) > MOST_BYTES:
        raise InvalidInput(f"{file} has more than {MOST_BYTES:,} bytes; give it in parts")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text: {error}; convert it first") from None


def _read(file: str, option: str = "") -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{option}{file} can't be read: {error.strerror}") from None


def _rules(config: str | None) -> Rules:
    return rules_from() if config is None else rules_from(_read(config, "--config "), config)


def _show(report: GatesReport) -> None:
    for hit in report.hits:
        place = f"{report.file}:{hit.line}:{hit.column}"
        click.echo(legible(f"{place}: {hit.rule}: {hit.message}. {hit.suggestion}"))
    if report.hits:
        click.echo()
    rows = [
        (name, "pass" if gate.passed else "FAIL", f"{gate.score:.1f}", gate.verdict)
        for name, gate in report.gates.items()
    ]
    rows += [(name, "-", "-", because) for name, because in report.unasked.items()]
    table(("gate", "", "score", ""), rows)
    verdict = "all gates pass" if report.overall_passed else "not passed"
    click.echo(f"{report.words} words, score {report.overall_score:.1f}: {verdict}")
