"""The form of a site that takes reports: how its fields are filled, and what shows that it did."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mulligan.errors import ToolError
from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.addresses import check_url
from mulligan.tools.web_use.commands import MAX_WAIT_MS, Condition
from mulligan.tools.web_use.conditions import ConditionName
from mulligan.workflows.report.package import Package

VALUES = ("week", "kind", "run", "revision", "digest", "summary")
"""What `{…}` in a field or in evidence may name of a report."""
_NAMED = re.compile(r"\{(\w+)\}")
POSITIVE: tuple[ConditionName, ...] = ("text_contains", "title_contains", "element_present")
"""
Conditions that a page of failure does not meet by itself: it lacks most texts, and may stand at any
address.
"""


class Shown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page that only has to be looked at, and what it shows once a report is there."""

    url: str
    evidence: tuple[Condition, ...]
    wait_ms: int = 2_000


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    `fields`, `choices` and `secrets` are filled by label, in this order; a secret is the name of
    one. `evidence` must not be there before `button` is clicked, and must be after; `failures` are
    signs that it may not have worked. `check` is where a report can be found again.
    """

    url: str
    button: str
    evidence: tuple[Condition, ...]
    fields: dict[str, str] = {}
    choices: dict[str, str] = {}
    secrets: dict[str, str] = {}
    failures: tuple[Condition, ...] = ()
    wait_ms: int = 5_000
    check: Shown | None = None


def form_of(given: Any, package: Package, rules: WebRules) -> Form:
    """
    The form with a report's values in it, and every bound held.

    Raises ToolError `invalid_form`, or as web_use does where a URL is none that may be opened.
    """
    try:
        form = msgspec.convert(_filled(given, _values(package)), Form)
    except (msgspec.ValidationError, ValueError) as error:
        raise ToolError("invalid_form", f"form: {error}") from None
    _check_evidence("evidence", form.evidence)
    if form.check is not None:
        _check_evidence("check.evidence", form.check.evidence)
    labels = [*form.fields, *form.choices, *form.secrets]
    if twice := next((one for one in labels if labels.count(one) > 1), None):
        raise ToolError("invalid_form", f"form: {twice!r} is filled twice")
    waits = (form.wait_ms, *((form.check.wait_ms,) if form.check else ()))
    if not form.button.strip() or not all(0 <= one <= MAX_WAIT_MS for one in waits):
        raise ToolError("invalid_form", f"form: a button, and wait_ms from 0 to {MAX_WAIT_MS:,}")
    for url in (form.url, *((form.check.url,) if form.check else ())):
        check_url(url, rules)
    return form


def _check_evidence(place: str, evidence: tuple[Condition, ...]) -> None:
    if not any(one.condition in POSITIVE for one in evidence):
        raise ToolError(
            "invalid_form",
            f"form.{place}: one condition at least has to show that it worked: "
            f"{', '.join(POSITIVE[:-1])} or {POSITIVE[-1]}",
        )


def element(snapshot: str, roles: tuple[str, ...], name: str) -> str:
    """
    The reference of the one element of that role and name.

    Raises ToolError `form_differs` where there is none, or more than one.
    """
    quoted = re.escape(json.dumps(name, ensure_ascii=False))
    kinds = "|".join(roles)
    found = re.findall(rf"\b(?:{kinds}) {quoted}(?: \[[^\]]*\])*? \[ref=(\w+)\]", snapshot)
    if len(found) != 1:
        what = "no" if not found else "more than one"
        raise ToolError("form_differs", f"the page has {what} {' or '.join(roles)} {name!r}")
    return str(found[0])


def _values(package: Package) -> dict[str, str]:
    manifest = package.manifest
    return {
        "week": manifest.week,
        "kind": manifest.kind,
        "run": manifest.run,
        "revision": str(manifest.revision),
        "digest": manifest.digest,
        "summary": package.texts.get("summary.md", ""),
    }


def _filled(given: Any, values: Mapping[str, str]) -> Any:
    """The same with every `{name}` in a text replaced. Raises ValueError for an unknown name."""
    if isinstance(given, str):
        unknown = [name for name in _NAMED.findall(given) if name not in values]
        if unknown:
            raise ValueError(f"{{{unknown[0]}}} is none of {', '.join(VALUES)}")
        return _NAMED.sub(lambda match: values[match[1]], given)
    if isinstance(given, Mapping):
        return {name: _filled(value, values) for name, value in given.items()}
    return [_filled(one, values) for one in given] if isinstance(given, list) else given
