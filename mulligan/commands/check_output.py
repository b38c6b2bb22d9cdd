"""
`mulligan check-output`: run the completion protocol on a text, or on many.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import click
import msgspec

from mulligan.completion.check import check_output as judge
from mulligan.completion.check import require_usable
from mulligan.completion.protocol import Mode
from mulligan.completion.verdict import (
    Coercion,
    Completed,
    Failure,
    Issue,
    Step,
    Verdict,
    VerdictName,
    verdict_name,
)
from mulligan.errors import InvalidInput


class Options(TypedDict):
    """What is off unless asked for."""

    accept_missing_closers: bool
    scalar_for_list: bool


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
    mode: Mode = "tool"

    def __repr__(self) -> str:
        return f"Line({self.id!r}, <{len(self.raw)} characters>)"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is printed for a candidate: all fields in every case, `output` null unless completed.
    With `--jsonl` the line's `id` stands before them.
    """

    id: str | int | msgspec.UnsetType = msgspec.UNSET
    verdict: VerdictName
    output: Any = None
    assistant_message: str | None = None
    steps: tuple[Step, ...] = ()
    coercions: tuple[Coercion, ...] = ()
    issues: tuple[Issue, ...] = ()

    @classmethod
    def of(
        cls, verdict: Verdict, line_id: str | int | msgspec.UnsetType = msgspec.UNSET
    ) -> Checked:
        """The printed form of a verdict."""
        name = verdict_name(verdict)
        if isinstance(verdict, Completed):
            return cls(
                id=line_id,
                verdict=name,
                output=verdict.output,
                assistant_message=verdict.assistant_message,
                steps=verdict.steps,
                coercions=verdict.coercions,
            )
        return cls(id=line_id, verdict=name, steps=verdict.steps, issues=verdict.issues)

    def __repr__(self) -> str:
        return f"Checked({self.verdict!r}, {len(self.issues)} issues)"


@click.command("check-output")
@click.option("--schema", "schema_file", metavar="FILE", help="JSON Schema 2020-12 of the output.")
@click.option("--finish-reason", default="stop", show_default=True, help="As the provider gave it.")
@click.option("--terminal/--no-terminal", default=True, help="Did the response come to its end?")
@click.option(
    "--mode",
    type=click.Choice(["tool", "prompt"]),
    default="tool",
    show_default=True,
    help="How it was handed in: a call of the hidden tool, or text.",
)
@click.option("--accept-missing-closers", is_flag=True, help="Add closing brackets, those alone.")
@click.option("--scalar-for-list", is_flag=True, help="Take x for [x] where an array is due.")
@click.option("--json", "as_json", is_flag=True, help="No words on standard error beside the JSON.")
@click.option("--jsonl", is_flag=True, help="Read {id, raw, schema?, …} lines; print one for each.")
def check_output(
    schema_file: str | None,
    finish_reason: str,
    terminal: bool,
    mode: Mode,
    accept_missing_closers: bool,
    scalar_for_list: bool,
    as_json: bool,
    jsonl: bool,
) -> None:
    """
    Judge the model output on standard input: a value that fits, or the reason why not.

    Prints {"verdict", "output", "steps", "issues", …}. Exit status: 0 completed (with --jsonl:
    every line was answered), 1 not, 2 bad input.
    """
    options = Options(
        accept_missing_closers=accept_missing_closers, scalar_for_list=scalar_for_list
    )
    schema = None if schema_file is None else _read_schema(Path(schema_file))
    data = sys.stdin.buffer.read()
    if jsonl:
        _answer_lines(data, schema, options)
        return
    evidence = {"finish_reason": finish_reason or None, "terminal": terminal}
    verdict = judge(data, schema, mode=mode, **evidence, **options)  # type: ignore[arg-type]
    _print(Checked.of(verdict))
    if not as_json and not isinstance(verdict, Completed):
        _explain(verdict)
    sys.exit(0 if isinstance(verdict, Completed) else 1)


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        schema: Any = msgspec.json.decode(path.read_bytes())
        require_usable(schema)
    except OSError as error:
        reason = error.strerror or "not readable"
        raise InvalidInput(f"--schema {path}: {reason}; name a file with a JSON Schema") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--schema {path}: no JSON ({error}); correct the file") from None
    except InvalidInput as error:
        raise InvalidInput(f"--schema {path}: {error}") from None
    return dict(schema)


def _answer_lines(data: bytes, schema: dict[str, Any] | None, options: Options) -> None:
    """Read all lines before the first answer: one that can't be read stops the whole."""
    for line in list(_lines(data)):
        _print(Checked.of(_judge_line(line, schema, options), line.id))
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


def _judge_line(line: Line, schema: dict[str, Any] | None, options: Options) -> Verdict:
    reason = line.finish_reason
    terminal = line.terminal if line.terminal is not None else reason is not None
    return judge(
        line.raw,
        schema if line.schema is None else line.schema,
        finish_reason=None if isinstance(reason, msgspec.UnsetType) else reason,
        terminal=terminal,
        completion_tokens=line.usage.completion_tokens if line.usage else None,
        max_tokens=line.max_tokens,
        mode=line.mode,
        **options,
    )


def _print(checked: Checked) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(checked) + b"\n")


def _explain(verdict: Failure) -> None:
    click.echo(verdict_name(verdict), err=True)
    for issue in verdict.issues:
        click.echo(f"  {issue.path or '/'}: {issue.message} [{issue.code}]", err=True)
