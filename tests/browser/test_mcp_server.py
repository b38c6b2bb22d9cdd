"""web8: `mulligan mcp`, by the SDK's client against a real process, and a real Chromium."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from mulligan.testing.waiting import until
from tests.browser.bridge_process import CANARY, BridgeProcess
from tests.browser.site import Site

Talks = Callable[[Client], Awaitable[None]]


def talk(talks: Talks, data_dir: Path, *options: str, **environment: str) -> None:
    """Start the server as a client would, and talk to it."""
    given = {"MULLIGAN_DATA_DIR": str(data_dir), "PYTHONPATH": ":".join(filter(None, sys.path))}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mulligan.cli", "mcp", *options],
        env=given | environment,
    )

    async def session() -> None:
        async with Client(server) as client:
            await talks(client)

    asyncio.run(session())


RULES = {"MULLIGAN_BROWSER_ALLOW": '["127.0.0.1"]', "MULLIGAN_BROWSER_NETWORKS": '["127.0.0.0/8"]'}


def value(result: CallToolResult) -> Any:
    """What a result holds, which its text says too."""
    told = json.loads(result.content[0].text)  # type: ignore[union-attr]
    assert told == result.structured_content
    return told


def test_web8_from_an_empty_inventory_a_page_is_listed_and_observed(
    bridge: BridgeProcess, site: Site
) -> None:
    async def talks(client: Client) -> None:
        assert ["web_use"] == [tool.name for tool in (await client.list_tools()).tools]

        async def use(**command: Any) -> CallToolResult:
            return await client.call_tool("web_use", command)

        empty = await use(command="list_pages")
        assert (False, []) == (empty.is_error, value(empty)["pages"])
        seen = value(await use(command="observe", url=f"{site.url}/form"))
        assert "Form" == seen["title"]
        assert seen["observation"]
        (listed,) = value(await use(command="list_pages"))["pages"]
        assert ("Form", f"{site.url}/form") == (listed["title"], listed["url"])
        again = value(await use(command="observe", page=listed["page"]))
        assert again["observation"] != seen["observation"]
        consumed = await use(command="observe", page=listed["page"])
        assert (True, "page_context_consumed") == (consumed.is_error, value(consumed)["code"])
        refused = await use(command="observe", url="http://169.254.169.254/latest/meta-data")
        assert refused.is_error
        wrong = await use(command="open", url=site.url)
        assert (True, "invalid_command") == (wrong.is_error, value(wrong)["code"])
        nulls = await use(command="list_pages", page=None, url=None)
        await use(command="close", page=value(nulls)["pages"][0]["page"])

    talk(talks, bridge.folder, **RULES)

    assert [] == site.saved, "nothing was submitted"
    assert {"GET"} == {method for method, _ in site.received}
    assert CANARY not in repr(site.received)


def quiet(site: Site) -> Callable[[], bool]:
    """Tells whether a page that asks every 50 ms has asked for nothing for half a second."""
    last = [-1.0, 0.0]

    def is_quiet() -> bool:
        now_s, asked = time.monotonic(), len(site.received)
        if asked != last[0]:
            last[:] = asked, now_s
        return now_s - last[1] > 0.5

    return is_quiet


def test_web8_the_window_of_a_client_ends_with_it(bridge: BridgeProcess, site: Site) -> None:
    """It is of use to nobody else, and its pages would go on."""

    async def talks(client: Client) -> None:
        called = {"command": "observe", "url": f"{site.url}/list"}
        assert not (await client.call_tool("web_use", called)).is_error

    talk(talks, bridge.folder, **RULES)

    assert ("GET", "/rows") in site.received, "it asks for its rows again and again"
    until(quiet(site), 20.0)


def test_web8_what_was_asked_is_answered_though_the_input_ends(tmp_path: Path) -> None:
    """As where requests are piped in: `printf … | mulligan mcp`."""
    (tmp_path / "note.txt").write_text("one")
    made = {"protocolVersion": "2025-06-18", "capabilities": {}}
    made["clientInfo"] = {"name": "by hand", "version": "0"}
    call = {"name": "read", "arguments": {"file_path": "note.txt"}}
    lines = [
        {"id": 1, "method": "initialize", "params": made},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": call} for number in (2, 3)),
        {"id": 4, "method": "tools/call", "params": call},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mulligan.cli", "mcp", "--root", str(tmp_path)],
        input="".join(f"{json.dumps({'jsonrpc': '2.0', **one})}\n" for one in lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    replies = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert {1, 2, 3, 4} == set(replies)
    assert "1\tone" in replies[4]["result"]["content"][0]["text"]


def test_web8_without_a_bridge_it_says_so_and_reads_files(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "note.txt").write_text("one\ntwo\n")
    (tmp_path / "secret.txt").write_text("a secret")

    async def talks(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert ["web_use", "read"] == names
        gone = await client.call_tool("web_use", {"command": "list_pages"})
        assert (True, "desktop_unavailable") == (gone.is_error, value(gone)["code"])
        note = await client.call_tool("read", {"file_path": "note.txt", "offset": 2, "limit": None})
        assert not note.is_error
        assert "[note.txt: lines 2-2 of 2]\n     2\ttwo" == note.content[0].text  # type: ignore[union-attr]
        outside = await client.call_tool("read", {"file_path": "../secret.txt"})
        assert (True, "outside_roots") == (outside.is_error, value(outside)["code"])
        wrong = await client.call_tool("read", {"file_path": None})
        assert (True, "invalid_arguments") == (wrong.is_error, value(wrong)["code"])

    talk(talks, tmp_path / "data", "--root", str(tmp_path / "papers"))


def test_a_folder_that_is_not_there_is_refused(command: Any, tmp_path: Path) -> None:
    refused = command("mcp", "--root", "absent", folder=tmp_path)
    assert 2 == refused.returncode
    assert "--root absent: there is no such folder" in refused.stderr
