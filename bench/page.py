"""
How fast the page shows its list, in milliseconds: `python bench/page.py [RUNS]` (10,000).

Each row is a browser that has nothing of the page yet; "first" is a server that has answered nobody
before. "paint" is the browser's first contentful paint, "rows" when the newest hundred runs are in
the document, both since the navigation began.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from playwright.sync_api import Browser, sync_playwright

from mulligan.client import Client
from mulligan.logs import configure_logs
from mulligan.projections.projector import Projector
from mulligan.projections.rows import SUMMARIES
from mulligan.projections.summary import RunSummary
from mulligan.settings import Settings
from mulligan.testing.server import ValkeyServer
from mulligan.tools.web_use.executable import find_chromium
from mulligan.web.access import Access
from mulligan.web.app import create_app
from mulligan.web.server import Server, listen

LOADS = 15
WATCH = """
new MutationObserver((_, watching) => {
  if (document.querySelectorAll("tbody tr").length < 100) return;
  window.rowsAt = performance.now();
  watching.disconnect();
}).observe(document, { childList: true, subtree: true });
"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def seed(client: Client, count: int) -> None:
    """Rows of runs that have ended, as the projector stores them."""
    Projector(client.store, print).catch_up()
    rows = {
        row.run: msgspec.json.encode(row)
        for row in (
            RunSummary(
                run=f"order-{number:06}",
                version=40,
                status="failed" if number % 50 == 0 else "completed",
                workflow="orders",
                tags=("eu", "daily"),
                requested_ms=1_750_000_000_000 + number * 1_000,
                started_ms=1_750_000_000_200 + number * 1_000,
                ended_ms=1_750_000_009_000 + number * 1_000,
                nodes={"completed": 6},
            )
            for number in range(count)
        )
    }
    there = client.store.checkpoint(SUMMARIES.name, 0)
    client.store.commit_rows(SUMMARIES.name, 0, expected=there, checkpoint=there, rows=rows)


@contextmanager
def served(client: Client) -> Iterator[str]:
    """The address of a server that has answered nobody yet."""
    started = threading.Event()
    server = Server(create_app(client, Access()), started.set)
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        started.wait(20)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.end()
            thread.join()


def load(browser: Browser, url: str) -> tuple[float, float]:
    """Milliseconds until the first paint, and until the rows are there."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(url)
    page.locator("tbody tr").nth(99).wait_for(state="attached")
    took = page.evaluate(PAINT), page.evaluate("window.rowsAt")
    context.close()
    return took


def say(name: str, took: list[tuple[float, float]]) -> None:
    """A row: the median, and the worst."""
    columns = [f"{statistics.median(one):8.0f} {max(one):8.0f}" for one in zip(*took, strict=True)]
    print(f"{name:28} {columns[0]}   {columns[1]}")


def measure(client: Client, browser: Browser, count: int) -> None:
    """Print a row for each state of a server."""
    print(f"{count:,} runs {'':14} paint    worst       rows    worst")
    first = []
    for _ in range(3):
        with served(client) as url:
            first.append(load(browser, url))
    say("a server's first answer", first)
    with served(client) as url:
        load(browser, url)
        say("a server that is in use", [load(browser, url) for _ in range(LOADS)])


def main() -> None:
    """Seed a log, and measure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    configure_logs("error")
    root = ["--no-sandbox"] if os.getuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as folder,
        ValkeyServer() as valkey,
        Client(Settings(redis_url=valkey.url, data_dir=Path(folder))) as client,
        sync_playwright() as playwright,
    ):
        seed(client, count)
        browser = playwright.chromium.launch(executable_path=find_chromium(None), args=root)
        measure(client, browser, count)
        browser.close()


if __name__ == "__main__":
    main()
