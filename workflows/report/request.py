"""What a report is asked for with: held to its form before any model is asked."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, date, datetime
from typing import Any

from mulligan.errors import ToolError
from mulligan.schemas.run_context import RunContext
from mulligan.workflows.report.members import ALL, LEAVE_OUT, Member, same_name
from mulligan.workflows.report.weeks import zone_named

DEFAULT_KIND = "weekly"
_KIND = re.compile(r"[a-z][a-z0-9-]{0,31}")


def request(input: dict[str, Any], run_context: RunContext) -> dict[str, Any]:  # noqa: A002 - the workflow's name for it
    """
    The request as the stages after it read it: its text, when it was made (the input's
    `recorded_at`, or when the run was asked for), the time zone, the members, the supplied
    materials with their digests.

    Raises ToolError `invalid_request`: what is wrong, and where.
    """
    try:
        zone = zone_named(input["timezone"])
        asked_at = _moment(input.get("recorded_at"), run_context).astimezone(zone)
        return {
            "text": input["request"].strip(),
            "kind": _kind(input.get("kind", DEFAULT_KIND)),
            "timezone": zone.key,
            "asked_at": asked_at.isoformat(timespec="seconds"),
            "members": _members(input["members"]),
            "materials": _materials(input["materials"]),
        }
    except ValueError as error:
        raise ToolError("invalid_request", str(error)) from None


def _kind(given: str) -> str:
    if not _KIND.fullmatch(given):
        raise ValueError(f"kind: {given[:40]!r} is none; use small letters, digits and dashes")
    return given


def _moment(given: str | None, context: RunContext) -> datetime:
    if given is None:
        if context.requested_ms is None:
            raise ValueError("recorded_at: say when this is asked for, as 2026-11-30T09:00:00Z")
        return datetime.fromtimestamp(context.requested_ms / 1_000, UTC)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise ValueError(f"recorded_at: {given[:40]!r} is no time of ISO 8601") from None
    if moment.tzinfo is None:
        raise ValueError("recorded_at: has no time zone; end it with Z or an offset")
    if not 1 < moment.year < 9999:  # the weeks beside it have to be of a year, in any zone
        raise ValueError(f"recorded_at: the year {moment.year} has no week before or after it")
    return moment


def _members(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    members: list[Member] = []
    for place, one in enumerate(given):
        member = Member(one["name"].strip(), tuple(one.get("aliases", ())))
        names = member.names
        if any(not name.strip() for name in names):
            raise ValueError(f"members[{place}]: a name is blank")
        if any(same_name(name, answer) for name in names for answer in (ALL, LEAVE_OUT)):
            raise ValueError(f"members[{place}]: a name is what an answer may say: {names[0]!r}")
        if any(same_name(name, other) for m in members for other in m.names for name in names):
            raise ValueError(f"members[{place}]: {member.name!r} shares a name with another")
        members.append(member)
    return [{"name": one.name, "aliases": list(one.aliases)} for one in members]


def _materials(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: set[str] = set()
    materials = []
    for place, one in enumerate(given):
        if one["id"] in seen:
            raise ValueError(f"materials[{place}]: the id {one['id']!r} is there twice")
        seen.add(one["id"])
        materials.append(
            {
                "id": one["id"],
                "title": one.get("title") or one["id"],
                "author": one.get("author"),
                "date": _date(one.get("date"), place),
                "text": one["text"],
                "sha256": hashlib.sha256(one["text"].encode()).hexdigest(),
            }
        )
    return materials


def _date(given: str | None, place: int) -> str | None:
    if given is None:
        return None
    try:
        return date.fromisoformat(given).isoformat()
    except ValueError:
        message = f"materials[{place}].date: {given[:40]!r} is no day; say YYYY-MM-DD"
        raise ValueError(message) from None
