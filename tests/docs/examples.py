"""
The examples of the documents: their fenced blocks, and the commands of those that are a console.
Nothing is run here.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")))

FENCE = re.compile(r"```(\w*)$")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
INTRODUCED = re.compile(r"`([\w.-]+\.(?:md|json|py|yaml))`[^`]*[:,]$")
"""A line that ends so says which file the block below it is."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced block: where it opens, what it holds, and, if it is one, the file that it is."""

    page: str
    line: int
    language: str
    text: str
    file: str | None
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a console without its prompt, and what the page says that it prints."""

    line: str
    prints: tuple[str, ...]


def blocks(page: str, text: str) -> list[Block]:
    """
    The fenced blocks of a page, in order.

    Raises:
        ValueError: a fence is not closed, or says no language.
    """
    lines = text.splitlines()
    found: list[Block] = []
    number = 0
    while number < len(lines):
        opened = FENCE.match(lines[number])
        if opened is None:
            if lines[number].lstrip().startswith("```"):
                raise ValueError(f"{page}:{number + 1}: no fence that is understood")
            number += 1
            continue
        end = _end_of(lines, number, page)
        if not opened[1]:
            raise ValueError(f"{page}:{number + 1}: the fence says no language")
        before = next((one for one in reversed(lines[:number]) if one), "")
        mark, introduced = NOT_RUN.fullmatch(before), INTRODUCED.search(before)
        found.append(
            Block(
                page=page,
                line=number + 1,
                language=opened[1],
                text="".join(f"{one}\n" for one in lines[number + 1 : end]),
                file=introduced[1] if introduced else None,
                reason=mark[1] if mark else None,
            )
        )
        number = end + 1
    return found


def _end_of(lines: list[str], opened: int, page: str) -> int:
    for number in range(opened + 1, len(lines)):
        if lines[number] == "```":
            return number
    raise ValueError(f"{page}:{opened + 1}: the fence is not closed")


def commands(text: str) -> list[Command]:
    """
    The commands of a console, each with the lines below it that are no command.

    Raises:
        ValueError: it begins with something else than a command.
    """
    found: list[Command] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append(Command(line=line[2:], prints=()))
        elif found:
            last = found[-1]
            found[-1] = Command(line=last.line, prints=(*last.prints, line))
        else:
            raise ValueError(f"no command, but {line!r}")
    return found


def parts(line: str) -> list[tuple[str, list[str]]]:
    """
    The programs of a command line, each with what follows it: `;`, `|`, `&`, or nothing. Comments
    are left out.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
    lexer.whitespace_split = True
    found: list[tuple[str, list[str]]] = []
    words: list[str] = []
    for word in lexer:
        if word in {"|", ";", "&"}:
            found.append((word, words))
            words = []
        else:
            words.append(word)
    return [*found, ("", words)] if words else found


def says(shown: str, printed: str) -> bool:
    """Whether a printed line is the one shown, in which `…` stands for anything."""
    pattern = ".*".join(map(re.escape, shown.strip().split("…")))
    return re.fullmatch(pattern, printed.strip()) is not None


def printed_by(code: str) -> list[str]:
    """What a program's comments say that it prints: `print(x)  # so`."""
    return re.findall(r"^\s*print\(.*\)  # (.*)$", code, re.MULTILINE)
