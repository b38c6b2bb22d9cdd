"""`mulligan doctor`: check server, queue and workers, and say what to do."""

from __future__ import annotations

import sys
from typing import Literal

import click
import msgspec

from mulligan.commands.diagnosis import Finding, examine
from mulligan.commands.printing import json_option, show_json
from mulligan.errors import EnvironmentUnfit
from mulligan.settings import load_settings

MARKS = {"good": "ok  ", "note": "note", "bad": "BAD "}


class Diagnosis(msgspec.Struct, kw_only=True):
    """Whether runs can be carried here, and all that was found."""

    kind: Literal["doctor"] = "doctor"
    fit: bool
    findings: list[Finding]


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Look at versions, settings, server, queue and workers. Exit 5: no run can be carried."""
    findings = list(examine(load_settings()))
    fit = all(finding.state != "bad" for finding in findings)
    if as_json:
        show_json(Diagnosis(fit=fit, findings=findings))
    else:
        for finding in findings:
            _show(finding)
    if not fit:
        sys.exit(EnvironmentUnfit.exit_code)


def _show(finding: Finding) -> None:
    click.echo(f"{MARKS[finding.state]}  {finding.matter:<12} {finding.detail}")
    if finding.advice is not None:
        click.echo(f"      {'':<12} → {finding.advice}")
