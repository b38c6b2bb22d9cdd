"""
An invoice that its model reads wrong, and rounds of repair that put it right: for tests of what
becomes of a run of `records` under faults.
"""

from __future__ import annotations

from typing import Any

LETTER = """\
Invoice No. A-17, 3 March 2024, payable by 17 March 2024
2 x Tea, green, at EUR 4.50: 9.00
Net 9.00, VAT 19 %: 1.71, total EUR 10.71
"""
INPUT = {"documents": [{"id": "letter", "text": LETTER}]}

RECORD: dict[str, Any] = {
    "number": "A-17",
    "date": "2024-03-03",
    "due": "2024-03-17",
    "currency": "EUR",
    "lines": [{"description": "Tea, green", "quantity": 2, "unit_price": 4.5, "amount": 9}],
    "net": 9,
    "tax_rate": 19,
    "tax": 1.71,
    "total": 10.71,
}
"""What the letter says."""

NUMBER = "/documents/0/records/0/number"

ROUNDS = ("repair.1.1", "repair.2.1", "repair.3.1")
"""The agents that repair calls, one a round."""


def script() -> dict[str, Any]:
    """
    What its models say, however often they are asked: two wrong fields, one of which a sum tells
    and the other has to be read again; two rounds that read it wrong again, and one that reads the
    whole record.
    """
    misread = RECORD | {"number": "A-71", "total": 1}
    answers = [
        ({"node": "extract[0]"}, {"records": [misread]}),
        ({"invocation": ROUNDS[0]}, {"fields": [{"path": NUMBER, "value": "A-1"}]}),
        ({"invocation": ROUNDS[1]}, {"fields": [{"path": NUMBER, "value": "B-1"}]}),
        ({"invocation": ROUNDS[2]}, {"record": RECORD}),
    ]
    return {"turns": [{"match": match, "json": said, "times": "always"} for match, said in answers]}
