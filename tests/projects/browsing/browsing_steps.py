"""What a workflow's own code does in the browser."""

from __future__ import annotations

import re
from typing import Any

from mulligan.schemas.run_context import RunContext
from mulligan.settings import load_settings
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.client import BridgeClient
from mulligan.tools.web_use.commands import Click, Condition, Observe


def deliver(
    input: dict[str, Any],  # noqa: A002 - the name that nodes know it by
    run_context: RunContext,
) -> str:
    """Save the form at the input's URL; done only with evidence."""
    with BridgeClient(load_settings().browser_socket_path) as browser:
        seen = browser.call(Observe(url=input["url"]), Caller.of_run(run_context, "open"))
        button = re.search(r'button "Save" \[ref=(\w+)\]', seen["snapshot"])
        assert button is not None
        save = Click(
            page=seen["page"],
            observation=seen["observation"],
            element=button[1],
            evidence=(Condition(condition="text_contains", value="Report saved"),),
            wait_ms=1_000,
        )
        receipt = browser.call(save, Caller.of_run(run_context, "save"))
    return str(receipt["outcome"])
