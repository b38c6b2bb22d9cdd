"""
Text made to take long, or to break whoever reads it: for parsers of what models write.
"""

from __future__ import annotations

import json

SIZE = 65_536
"""Characters of the long ones; a candidate of more bytes is not repaired (OVR-3)."""

UNITS = (
    "{",
    "[",
    '["a" "b" "c ',
    'a" b "c ',
    '{"a":',
    "[[],",
    "(",
    "f(",
    '"',
    '\\"',
    "'",
    "`",
    "{}",
    "{a}",
    "[1]",
    '{"a":1}',
    "\\",
    "\\u",
    "\\n",
    "{[}]",
    "}{",
    ":",
    ",",
    "a=",
    "a.",
    "1,",
    "-",
    "e",
    "<",
    "</",
    "<|",
    "“",
    "//",
    "/*",
    "#",
    "\n",
    "null",
    "x = ",
    "{'a':",
    "it's ",
    '"x" ',
    "<think>",
    "</think>",
    "<tool_call>",
    "```",
    "~~~\n",
    "[A]",
    'say "hi", ',
    "�",
    "a:",
)


def repeated(unit: str, size: int = SIZE) -> str:
    """`unit` again and again, `size` characters in all."""
    return (unit * (size // len(unit) + 1))[:size]


HOSTILE = {
    **{f"{unit!r} alone": repeated(unit) for unit in UNITS},
    **{f"{unit!r} within": '{"a": ' + repeated(unit, SIZE - 10) + "}" for unit in UNITS},
    **{f"{unit!r} small": '{"a": ' + repeated(unit, 8_000) + "}" for unit in UNITS},
    **{
        f"{unit!r} in text": '{"s": "' + repeated(unit, 60_000) + '", "a": [],}'
        for unit in UNITS[::2]
    },
    **{f"{unit!r} before": repeated(unit, 60_000) + ' {"a": [1]}' for unit in UNITS[::2]},
    **{f"{unit!r} behind": '{"a": [1],} ' + repeated(unit, 60_000) for unit in UNITS[1::2]},
    **{f"{unit!r} after x": '{"a": [1],} x' + repeated(unit, 60_000) for unit in UNITS[::2]},
    **{f"{unit!r} after a call": 'f({"a": [1]})' + repeated(unit, 60_000) for unit in UNITS[1::2]},
    "digits": '{"a": [' + "9" * 1_000_000 + "]}",
    "digits of a fraction": '{"a": [0.' + "9" * 1_000_000 + "]}",
    "digits of an exponent": '{"a": [1e' + "9" * 60_000 + "]}",
    "digits in Python": "{'a': [" + "9" * 60_000 + "]}",
    "digits in a string": json.dumps({"a": ["9" * 60_000]}),
    "deep": "[" * SIZE + "]" * SIZE,
    "deep in Python": "{'a':" * 8_000 + "1" + "}" * 8_000,
    "signs in Python": "{'a': [" + "-" * 60_000 + "1]}",
    "sums in Python": "{'a': [" + "1+" * 30_000 + "1]}",
    "tuples": "{'a': " + "(" * 30_000 + ")" * 30_000 + "}",
    "coercible": json.dumps({"a": ["1"] * 15_000}),
    "broken bytes": '{"a": "' + "\udcff" * 60_000,
}
"""Every such text by a name that says how it is made."""
