"""
The rules that invoice records are held to: their form, sums, dates, and that the document says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

from mulligan.quality.report import Fix, Gate, Quality, judged
from mulligan.workflows.records.batch import Batch, pointer, records, section_of, value_at
from mulligan.workflows.records.spelling import number_of, says

NUMBER, TEXT = {"type": "number"}, {"type": "string", "minLength": 1}
DAY = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
RECORD: dict[str, Any] = {
    "type": "object",
    "required": ["number", "date", "currency", "lines", "net", "tax_rate", "tax", "total"],
    "additionalProperties": False,
    "properties": {
        "number": TEXT,
        "date": DAY,
        "due": {"anyOf": [DAY, {"type": "null"}]},
        "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["description", "quantity", "unit_price", "amount"],
                "additionalProperties": False,
                "properties": {
                    "description": TEXT,
                    "quantity": NUMBER,
                    "unit_price": NUMBER,
                    "amount": NUMBER,
                },
            },
        },
        "net": NUMBER,
        "tax_rate": NUMBER,
        "tax": NUMBER,
        "total": NUMBER,
    },
}
"""The schema of one record."""

_FORM = Draft202012Validator(RECORD)
CENT = Decimal("0.01")
SURGICAL, RECORD_LEVEL, DOCUMENT_LEVEL = 1, 2, 3


class _Found(msgspec.Struct, frozen=True):
    """What one rule says of one record: how much it looked at, and what is wrong."""

    looked: int
    fixes: tuple[Fix, ...]


def judge(draft: Batch, input: dict[str, Any]) -> Quality:  # noqa: A002 - the workflow's name for it
    """
    The report on a batch: gates `form`, `sums`, `dates`, `evidence` and `unique`, each scored by
    the share of what it looked at and found right.
    """
    texts = {one["id"]: one["text"] for one in input["documents"]}
    found: dict[str, list[_Found]] = {
        name: [] for name in ("form", "sums", "dates", "evidence", "unique")
    }
    for at, number, record in records(draft):
        where = _Where(draft, at, number, texts[draft["documents"][at]["id"]])
        well_formed = _form(record, where)
        found["form"].append(well_formed)
        if not well_formed.fixes:  # the other rules read fields that are there
            found["sums"].append(_sums(record, where))
            found["dates"].append(_dates(record, where))
            found["evidence"].append(_evidence(record, where))
    found["unique"] = [_unique(draft), _none_missing(draft)]
    gates = {name: _gate(said) for name, said in found.items()}
    return judged(gates, [fix for said in found.values() for one in said for fix in one.fixes])


def _gate(said: list[_Found]) -> Gate:
    wrong = sum(len(one.fixes) for one in said)
    looked = max(sum(one.looked for one in said), wrong)
    score = 100.0 * (1 - wrong / looked) if looked else 100.0
    return Gate(
        passed=wrong == 0,
        score=round(score, 2),
        metric=float(wrong),
        direction="lower",
        threshold=0.0,
        verdict=f"{wrong} wrong of {looked}",
    )


class _Where(msgspec.Struct, frozen=True):
    """A record's place, and the text that it was read from."""

    batch: Batch
    at: int
    number: int
    text: str

    def fix(
        self, gate: str, instruction: str, *steps: str | int, after: Any = None, level: int = 1
    ) -> Fix:
        """Something to repair at a value of the record."""
        path = pointer(self.at, self.number, *steps)
        return Fix(
            gate=gate,
            kind="field" if steps else "record",
            instruction=instruction,
            section=section_of(self.batch, self.at, self.number),
            before=_json(value_at(self.batch, path)),
            after=_json(after) if after is not None else None,
            level_hint=level,
            path=path,
        )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# --- Rules ---------------------------------------------------------------------------------------


def _form(record: dict[str, Any], where: _Where) -> _Found:
    """The record fits its schema; a number that was written as text is made one."""
    fixes = []
    for error in _FORM.iter_errors(record):
        steps = tuple(error.absolute_path)
        numeric = error.validator == "type" and error.schema == NUMBER
        after = number_of(error.instance) if numeric else None
        what = f"{error.json_path.removeprefix('$.')}: {error.validator} is not met"
        level = SURGICAL if steps else RECORD_LEVEL
        fixes.append(where.fix("form", what, *steps, after=after, level=level))
    return _Found(len(RECORD["required"]), tuple(fixes))


def _sums(record: dict[str, Any], where: _Where) -> _Found:
    """Each line is quantity times price, net is their sum, tax and total follow from it."""
    checks: list[tuple[tuple[str | int, ...], Decimal]] = [
        (("lines", i, "amount"), _money(line["quantity"]) * _money(line["unit_price"]))
        for i, line in enumerate(record["lines"])
    ]
    checks += [
        (("net",), sum((_money(line["amount"]) for line in record["lines"]), Decimal())),
        (("tax",), _money(record["net"]) * _money(record["tax_rate"]) / 100),
        (("total",), _money(record["net"]) + _money(record["tax"])),
    ]
    fixes = []
    for steps, wanted in checks:
        given = _money(value_at(record, "/".join(map(str, steps))))
        wanted = wanted.quantize(CENT)
        if abs(given.quantize(CENT) - wanted) > CENT:
            sure = says(where.text, float(wanted)) and not says(where.text, float(given))
            what = f"{_dotted(steps)} is {given}, and the others make it {wanted}"
            fixes.append(where.fix("sums", what, *steps, after=float(wanted) if sure else None))
    return _Found(len(checks), tuple(fixes))


def _dotted(steps: tuple[str | int, ...]) -> str:
    return ".".join(map(str, steps))


def _money(value: float) -> Decimal:
    return Decimal(str(value))


def _dates(record: dict[str, Any], where: _Where) -> _Found:
    """Both are days of the calendar, and the later one is not before the earlier."""
    fixes, days = [], {}
    for name in ("date", "due"):
        if record.get(name) is not None:
            try:
                days[name] = date.fromisoformat(record[name])
            except ValueError:
                fixes.append(where.fix("dates", f"{name} is no day of the calendar", name))
    if len(days) == 2 and days["due"] < days["date"]:
        fixes.append(where.fix("dates", "due lies before date", "due"))
    return _Found(2, tuple(fixes))


def _evidence(record: dict[str, Any], where: _Where) -> _Found:
    """Whatever the record says, the document says too."""
    values = list(_leaves(record))
    fixes = [
        where.fix("evidence", f"{_dotted(steps)}: the document does not say this", *steps)
        for steps, value in values
        if not says(where.text, value)
    ]
    return _Found(len(values), tuple(fixes))


def _leaves(value: Any, steps: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, (*steps, key))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _leaves(part, (*steps, i))
    elif value is not None:
        yield steps, value


def _unique(draft: Batch) -> _Found:
    """No number is of two invoices."""
    numbers = Counter(str(record.get("number")) for _, _, record in records(draft))
    fixes = [
        _Where(draft, at, number, "").fix(
            "unique", f"number {record.get('number')!r} is there twice", level=RECORD_LEVEL
        )
        for at, number, record in records(draft)
        if numbers[str(record.get("number"))] > 1
    ]
    return _Found(sum(numbers.values()), tuple(fixes))


def _none_missing(draft: Batch) -> _Found:
    """Each document holds an invoice."""
    fixes = [
        Fix(
            gate="unique",
            kind="document",
            instruction="no invoice was read from this document",
            section=document["id"],
            level_hint=DOCUMENT_LEVEL,
        )
        for document in draft["documents"]
        if not document["records"]
    ]
    return _Found(len(draft["documents"]), tuple(fixes))
