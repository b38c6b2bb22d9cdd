"""
The published shapes of what commands print with `--json`: `python -m mulligan.commands.published`
writes them to `schemas/json/`.

A test holds the files equal to what is written here, and what commands print to the files.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

import mulligan.schemas
from mulligan.commands.archive import ArchivedRuns
from mulligan.commands.browser_socket import Listening
from mulligan.commands.check_output import Checked
from mulligan.commands.doctor import Diagnosis
from mulligan.commands.down import Down
from mulligan.commands.gates import GatesReport
from mulligan.commands.rebuild import Rebuilt
from mulligan.commands.scripted_model import Serving
from mulligan.commands.serve import Served
from mulligan.commands.verify import Verified
from mulligan.events.codec import EventLine
from mulligan.events.deltas import Delta
from mulligan.events.key_rotation import Rotated
from mulligan.events.tenants import TenantList, TenantView
from mulligan.feed import Gap, SetBack, Unreadable
from mulligan.projections.chat import Chat
from mulligan.projections.live import Void
from mulligan.projections.recovery import RecoveryView
from mulligan.projections.repair_log import RepairLogs
from mulligan.projections.run_list import RunList
from mulligan.projections.run_view import RunResult, RunView
from mulligan.projections.trace import Trace
from mulligan.projections.usage import RunUsage, UsageTotals
from mulligan.replies import (
    Answered,
    Decided,
    Done,
    Enqueued,
    Forked,
    Redriven,
    ScheduleChanged,
    Signalled,
    Triggered,
)
from mulligan.schedule_views import ScheduleList, ScheduleView

PUBLISHED: dict[str, type] = {
    "answer": Answered,
    "approval": Decided,
    "archive": ArchivedRuns,
    "browser": Listening,
    "chat": Chat,
    "check-output": Checked,
    "delta": Delta,
    "doctor": Diagnosis,
    "done": Done,
    "down": Down,
    "enqueue": Enqueued,
    "event": EventLine,
    "fork": Forked,
    "gap": Gap,
    "set-back": SetBack,
    "gates": GatesReport,
    "keys-rotate": Rotated,
    "list": RunList,
    "rebuild": Rebuilt,
    "recovery": RecoveryView,
    "redrive": Redriven,
    "repair-log": RepairLogs,
    "run": RunResult,
    "schedule": ScheduleView,
    "schedule-changed": ScheduleChanged,
    "schedule-list": ScheduleList,
    "schedule-run-now": Triggered,
    "scripted-model": Serving,
    "serve": Served,
    "signal": Signalled,
    "status": RunView,
    "tenant": TenantView,
    "tenants": TenantList,
    "trace": Trace,
    "unreadable": Unreadable,
    "usage": RunUsage,
    "usage-totals": UsageTotals,
    "verify": Verified,
    "void": Void,
}
"""By the name of the file: `<name>.schema.json`."""

FOLDER = Path(mulligan.schemas.__path__[0]) / "json"


def published_text(name: str) -> str:
    """The text of one published file."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"mulligan {name} --json",
        **msgspec.json.schema(PUBLISHED[name]),
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write every published file."""
    for name in PUBLISHED:
        (FOLDER / f"{name}.schema.json").write_text(published_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
