"""Asking servers what they offer, when a workflow is compiled."""

from __future__ import annotations

import asyncio

from mcp import Client
from pydantic import ValidationError

from mulligan.errors import InvalidInput, ToolError
from mulligan.events.payload import canonical
from mulligan.schemas.mcp_tools import McpServer, OfferedTool
from mulligan.tools.mcp.sessions import CONNECT_S, listed, sessions

__all__ = ["ServerCatalogue"]


class ServerCatalogue:
    """`Catalogue` over real connections; each server is asked once."""

    def __init__(self) -> None:
        self._asked: dict[bytes, dict[str, OfferedTool] | InvalidInput] = {}

    def tools(self, server: McpServer) -> dict[str, OfferedTool]:
        """See `Catalogue.tools`."""
        key = canonical(server)
        if key not in self._asked:
            try:
                self._asked[key] = sessions.run(_listed(server))
            except InvalidInput as error:
                self._asked[key] = error
        found = self._asked[key]
        if isinstance(found, InvalidInput):
            raise found
        return found


async def _listed(server: McpServer) -> dict[str, OfferedTool]:
    async def ask(client: Client) -> dict[str, OfferedTool]:
        return await listed(client)

    try:
        async with asyncio.timeout(CONNECT_S):
            return await sessions.of(server).use(ask)
    except ToolError as error:
        raise InvalidInput(str(error)) from None
    except TimeoutError:
        raise InvalidInput(f"the server did not answer within {CONNECT_S:g} s") from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors(include_url=False, include_input=False)[0]["loc"]))
        raise InvalidInput(f"its list of tools is not as the protocol has it ({place})") from None
    except Exception as error:
        what = "it does not answer as an MCP server"
        raise InvalidInput(f"{what} ({type(error).__name__})") from None
