"""
`mulligan check-output`: run the completion protocol on a text, or on many.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from mulligan.completion.check import check_output as judge
from mulligan.completion.check import require_usable
from mulligan.completion.verdict import Completed, Failure, Verdict, verdict_name
from mulligan.errors import InvalidInput


class Usage(msgspec.Struct, frozen=True):
    """The part of a provider's usage that shows a response at its cap."""

    completion_tokens: int | None = None


class Line(msgspec.Struct, frozen=True):
    """
    One line of `--jsonl`.

    Without `terminal` the response counts as ended, unless `finish_reason` is there and null: that
    is what a stream leaves which just stopped. Without both, the text counts as handed over whole.
    """

    id: str | int
    raw: str
    schema: dict[str, Any] | None = None
    finish_reason: str | msgspec.UnsetType | None = msgspec.UNSET
    terminal: bool | None = None
    usage: Usage | None = None
    max_tokens: int | None = None
    mode: Literal["tool", "prompt"] = "tool"

    def __repr__(self) -> str:
        return f"Line({self.id!r}, <{len(self.raw)} characters>)"


@click.command("check-output")
@click.option("--schema", "schema_file", metavar="FILE", help="JSON Schema 2020-12 of the output.")
@click.option("--finish-reason", default="stop", show_default=True, help="As the provider gave it.")
@click.option(
    "--terminal/--no-terminal", default=True, help="Did the response come to its end?"
)
@click.option("--mode", type=click.Choice(["tool", "prompt"]), default="tool", show_default=True)
@click.option("--accept-missing-closers", is_flag=True, help="Add closing brackets, those alone.")
@click.option("--scalar-for-list", is_flag=True, help="Take x for [x] where an array is due.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole verdict as JSON.")
@click.option("--jsonl", is_flag=True, help="Read {id, raw, schema?, …} lines; print one for each.")
def check_output(
    schema_file: str | None,
    finish_reason: str,
    terminal: bool,
    mode: Literal["tool", "prompt"],
    accept_missing_closers: bool,
    scalar_for_list: bool,
    as_json: bool,
    jsonl: bool,
) -> None:
    """
    Judge the model output on standard input: a value that fits, or the reason why not.

    Exit status: 0 completed (with --jsonl: every line was answered), 1 not, 2 bad input.
    """
    options = {
        "accept_missing_closers": accept_missing_closers,
        "scalar_for_list": scalar_for_list,
    }
    try:
        schema = None if schema_file is None else _read_schema(Path(schema_file))
        data = sys.stdin.buffer.read()
        if jsonl:
            _answer_lines(data, schema, options)
            return
        verdict = judge(
            data,
            schema,
            finish_reason=finish_reason or None,
            terminal=terminal,
            mode=mode,
            **options,
        )
    except InvalidInput as error:
        click.echo(f"check-output: {error}", err=True)
        sys.exit(error.exit_code)
    _print(verdict, as_json)
    sys.exit(0 if isinstance(verdict, Completed) else 1)


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        schema: Any = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        reason = error.strerror or "not readable"
        raise InvalidInput(f"--schema {path}: {reason}; name a file with a JSON Schema") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--schema {path}: no JSON ({error}); correct the file") from None
    try:
        require_usable(schema)
    except InvalidInput as error:
        raise InvalidInput(f"--schema {path}: {error}") from None
    return dict(schema)


def _answer_lines(data: bytes, schema: dict[str, Any] | None, options: dict[str, bool]) -> None:
    """Read all lines before the first answer: one that can't be read stops the whole."""
    lines = list(_lines(data))
    encoder = msgspec.json.Encoder()
    for line in lines:
        verdict = _judge_line(line, schema, options)
        sys.stdout.buffer.write(encoder.encode({"id": line.id, **as_builtins(verdict)}) + b"\n")
    sys.stdout.buffer.flush()


def _lines(data: bytes) -> Iterator[Line]:
    for number, text in enumerate(data.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            # Not msgspec: a line may carry half of a surrogate pair, and is to be judged.
            line = msgspec.convert(json.loads(text), Line)
            if line.schema is not None:
                require_usable(line.schema)
        except (ValueError, RecursionError) as error:
            shape = "{id, raw, schema?, finish_reason?, terminal?, usage?, max_tokens?, mode?}"
            raise InvalidInput(f"line {number}: {error}; a line is {shape}") from None
        except InvalidInput as error:
            raise InvalidInput(f"line {number}: {error}") from None
        yield line


def _judge_line(line: Line, schema: dict[str, Any] | None, options: dict[str, bool]) -> Verdict:
    unset = isinstance(line.finish_reason, msgspec.UnsetType)
    terminal = line.terminal if line.terminal is not None else line.finish_reason is not None
    return judge(
        line.raw,
        schema if line.schema is None else line.schema,
        finish_reason=None if unset else line.finish_reason,  # type: ignore[arg-type]
        terminal=terminal,
        completion_tokens=line.usage.completion_tokens if line.usage else None,
        max_tokens=line.max_tokens,
        mode=line.mode,
        **options,
    )


def as_builtins(verdict: Verdict) -> dict[str, Any]:
    """The verdict as published in schemas/json/check-output.json."""
    fields: dict[str, Any] = msgspec.to_builtins(verdict)
    return {"verdict": fields.pop("verdict"), **fields}


def _print(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(as_builtins(verdict)) + b"\n")
        return
    if isinstance(verdict, Completed):
        sys.stdout.buffer.write(msgspec.json.encode(verdict.output) + b"\n")
    else:
        _print_failure(verdict)


def _print_failure(verdict: Failure) -> None:
    click.echo(verdict_name(verdict), err=True)
    for issue in verdict.issues:
        click.echo(f"  {issue.path or '/'}: {issue.message} [{issue.code}]", err=True)
