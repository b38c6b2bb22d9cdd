"""`mulligan repair FOLDER`: the repair loop on a draft that was made elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mulligan.commands.given_draft import read_draft
from mulligan.commands.printing import json_option
from mulligan.errors import InvalidInput

DRAFTS = ("draft.md", "draft.json")
MATERIALS = ("quality", "brief", "research", "angle", "outline")
"""Beside the draft, each as `.json` or, for texts, `.md`; none has to be there."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--workflow", default="repair", help="Another workflow that takes a draft.")
@click.option("--model", help="Instead of the model in the workflow's settings.")
@click.option("--run-id", help="The same id with the same folder is the same run.")
@json_option
def repair(
    folder: Path, workflow: str, model: str | None, run_id: str | None, as_json: bool
) -> None:
    """
    Repair the draft of FOLDER (draft.md, or draft.json for another workflow) until it passes its
    gates or a person has to decide. A quality.json there stands for the first judgement. What is
    made is written beside it.
    """
    from mulligan.commands.run import work_here

    given = read_folder(folder)
    code = work_here(workflow, given, model=model, run_id=run_id, as_json=as_json, artifacts=folder)
    sys.exit(code)


def read_folder(folder: Path) -> dict[str, Any]:
    """
    The draft of a folder and what lies beside it, by name.

    Raises:
        InvalidInput: there is no draft, or two; or a file is not what its name says.
    """
    drafts = [folder / name for name in DRAFTS if (folder / name).is_file()]
    if len(drafts) != 1:
        found = "both are there" if drafts else "neither is there"
        raise InvalidInput(f"{folder}: one of {' and '.join(DRAFTS)} is needed, and {found}")
    given = {"draft": read_draft(str(drafts[0]))}
    for name in MATERIALS:
        for suffix in (".json", ".md"):
            path = folder / f"{name}{suffix}"
            if path.is_file():
                given.setdefault(name, read_draft(str(path)))
    return given
