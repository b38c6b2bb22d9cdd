"""
A small MCP server of the tests' own: `python small_server.py stdio|PORT`.

It writes what its tools do into the file that RECORD names, and takes on another form of a tool
once the file `changed` is beside RECORD. Where `hangs` is, it takes that away and says nothing.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

RECORD = Path(os.environ["RECORD"])
server = MCPServer("small", log_level="CRITICAL")


def note(what: str) -> None:
    with RECORD.open("a") as record:
        record.write(f"{what}\n")


@server.tool(structured_output=False)
def look(word: str, limit: int | None = 3) -> str:
    """Look a word up."""
    return f"found {word} {limit}"


@server.tool()
def count(words: list[str]) -> dict[str, int]:
    """Count letters."""
    return {word: len(word) for word in words}


@server.tool(structured_output=False)
async def save(text: str, ctx: Context[Any, Any]) -> str:
    """Save a text."""
    meta = ctx.request_context.meta or {}
    note(f"save {text} {dict(meta).get('mulligan.dev/idempotency-key')}")
    return "saved"


@server.tool(structured_output=False)
def save_and_die(text: str) -> str:
    """Save a text, and say nothing of it."""
    note(f"save {text}")
    os._exit(1)


@server.tool(structured_output=False)
def refuse(text: str) -> str:
    """Fail."""
    raise ValueError("no such thing")


@server.tool(structured_output=False)
def sleep(seconds: float) -> str:
    """Take long."""
    note(f"pid {os.getpid()}")
    time.sleep(seconds)
    return "awake"


@server.tool(structured_output=False)
def surroundings() -> str:
    """The names of the variables that it was given."""
    return " ".join(sorted(os.environ))


@server.tool(structured_output=False)
def number() -> str:
    """The number of its process."""
    return str(os.getpid())


def looks_otherwise(word: str, language: str) -> str:
    """Look a word up, in a language."""
    return f"found {word} in {language}"


if RECORD.with_name("changed").exists():
    server.remove_tool("look")
    server.add_tool(looks_otherwise, name="look", structured_output=False)

if __name__ == "__main__":
    if RECORD.with_name("hangs").exists():
        RECORD.with_name("hangs").unlink()
        time.sleep(600)
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
