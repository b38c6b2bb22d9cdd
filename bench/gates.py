"""
How the gates' time grows with a text: `python bench/gates.py`.

For each kind of text, hostile ones among them, the processor time of all gates over 12.5 kB and
over four times that. Four times the text takes about four times as long; exit status 1 where it
takes more than eight times, as growth by the square would.
"""

from __future__ import annotations

import random
import string
import time

from mulligan.workflows.article.gates.judge import report_on
from mulligan.workflows.article.gates.rules import Brief, Config, rules_of

ALL = rules_of(
    Config(profile="article", brief=Brief(target_words=200, keyword="mud", format="faq"))
)
SIZE = 12_500
MOST = 8.0
"""Times as long, for four times the text."""


def prose(size: int) -> str:
    dice = random.Random(7)
    words = [
        "".join(dice.choices(string.ascii_lowercase, k=dice.randint(2, 9))) for _ in range(500)
    ]
    lines, length = [], 0
    while length < size:
        line = " ".join(dice.choices([*words, "delve into", "—", "in conclusion,"], k=12)) + "."
        lines.append(line)
        length += len(line) + 1
    return "".join(f"{line}\n" + "\n" * (n % 4 == 0) for n, line in enumerate(lines))


HOSTILE = {
    "prose": prose,
    "one line": lambda size: prose(size).replace("\n", " "),
    "brackets": lambda size: "[" * size,
    "images": lambda size: "![" * (size // 2),
    "stars": lambda size: "*a " * (size // 3),
    "backticks": lambda size: "`a``b" * (size // 5),
    "quotes": lambda size: "> " * (size // 2) + "a",
    "dashes": lambda size: "—" * size,
    "spaced dashes": lambda size: "a — " * (size // 4),
    "faults on a line": lambda size: "delve into " * (size // 11),
    "table": lambda size: "|a|b|\n|-|-|\n" + "|—|—|\n" * (size // 6),
    "parentheses": lambda size: (
        "(Lee, 2020" * (size // 10) + "\n\n## References\n\nLee, A. (2020). B."
    ),
    "headings": lambda size: "# a\n" * (size // 4),
    "letters": lambda size: "a" * size,
    "blanks": lambda size: "a" + " " * size + "b",
    "dots": lambda size: "a." * (size // 2),
}


def seconds(text: str) -> float:
    """The best of two rounds."""
    return min(_once(text) for _ in range(2))


def _once(text: str) -> float:
    began = time.process_time()
    report_on(text, ALL)
    return time.process_time() - began


def main() -> int:
    """Measure and print."""
    worst = 0.0
    for kind, text in HOSTILE.items():
        small, large = seconds(text(SIZE)), seconds(text(4 * SIZE))
        ratio = large / max(small, 0.01)
        worst = max(worst, ratio)
        print(f"{kind:16} {small:8.3f} s {large:8.3f} s  x {ratio:.1f}")
    return int(worst > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
