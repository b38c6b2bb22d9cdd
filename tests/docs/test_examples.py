"""The examples of README, CONTRIBUTING and the guides are run; those that are not say why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mulligan.testing.server import ValkeyServer
from tests.docs.examples import PAGES, ROOT, blocks
from tests.docs.scenes import SCENES
from tests.docs.shell import Shell

pytestmark = pytest.mark.server

BLOCKS = {page: blocks(page, (ROOT / page).read_text(encoding="utf-8")) for page in PAGES}
MAX_NOT_RUN = 6


@pytest.mark.parametrize("page", [page for page, found in BLOCKS.items() if found])
def test_the_examples_of_a_page_do_what_it_says(
    page: str, server: ValkeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.client() as client:
        client.flushall()
    with Shell(server.url, tmp_path, monkeypatch) as shell:
        SCENES.get(page, {}).get("", nothing)(shell)
        for block in BLOCKS[page]:
            shell.keep(block)
        for block in BLOCKS[page]:
            if block.reason is None:
                try:
                    shell.take(block, SCENES.get(page, {}))
                except Exception as error:
                    raise AssertionError(f"{block.place}: {error}") from error


def test_a_fence_without_a_language_is_refused() -> None:
    with pytest.raises(ValueError, match=r"guide\.md:3: the fence says no language"):
        blocks("guide.md", "# Tea\n\n```\n$ mulligan list\n```\n")


@pytest.mark.parametrize(
    ("example", "told"),
    [
        ("```console\n$ mulligan lst\n```\n", "No such command 'lst'"),
        ("```console\n$ mulligan list --state paused\n```\n", "No such option"),
        ("```console\n$ mulligan list\nno runs at all\n```\n", "not printed: no runs at all"),
        ("```python\nfrom mulligan import Clint\n```\n", "cannot import name 'Clint'"),
        ("```python\nprint(1 + 1)  # 3\n```\n", "not printed: 3"),
        ("```yaml\nname: tea\nnodes: [{id: a, kind: agnet}]\n```\n", "did you mean 'agent'?"),
        ("```json\n{\n```\n", "truncated"),
        ("```console\n$ export MULLIGAN_LEASE_MS=soon\n```\n", "MULLIGAN_LEASE_MS"),
        ("```ruby\nputs 1\n```\n", "nobody knows how to run 'ruby'"),
    ],
)
def test_a_broken_example_is_told_of(
    example: str,
    told: str,
    server: ValkeyServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (broken,) = blocks("guide.md", example)

    with (
        Shell(server.url, tmp_path, monkeypatch) as shell,
        pytest.raises(Exception, match=re.escape(told)),
    ):
        shell.take(broken, {})


def nothing(shell: Shell) -> None:
    """A page that takes nothing for granted."""


def test_few_examples_are_not_run() -> None:
    left_out = {one.place: one.reason for found in BLOCKS.values() for one in found if one.reason}

    assert len(left_out) <= MAX_NOT_RUN, left_out
