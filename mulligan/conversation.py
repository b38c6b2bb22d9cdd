"""
A run as a conversation, its values looked up and its prompts put together.
"""

from __future__ import annotations

from functools import partial

from mulligan.client import Client
from mulligan.decisions import scope
from mulligan.projections.chat import Chat, fold


def chat_of(client: Client, run: str) -> Chat:
    """
    What was said in a run.

    Raises:
        RunUnknown: there is no such run.
    """
    value_of = partial(client.value, run)
    return fold(
        run,
        client.events(run),
        value_of,
        lambda state, node, template: scope.prompt(state, node, template, value_of),
    )
