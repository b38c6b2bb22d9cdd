"""What a plan records of a server's tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from mulligan.errors import InvalidInput
from mulligan.events.payload import canonical, digest_of
from mulligan.schemas.mcp_tools import Catalogue, McpServer, McpTool, OfferedTool, ServerUnfit
from mulligan.schemas.problems import did_you_mean
from mulligan.schemas.tool_spec import ToolSpec
from mulligan.schemas.workflow import OFFERED_NAME, McpServerDefinition

__all__ = ["argument_validator", "mcp_spec", "parameters_digest"]

MAX_PARAMETERS_BYTES = 64 * 1024
"""Of a tool's argument schema, which is sent with every request."""
MAX_DESCRIPTION = 4_096
"""Characters of what a tool says of itself that models are shown."""


def mcp_spec(
    server_name: str,
    tool: str,
    servers: Mapping[str, McpServerDefinition | None],
    catalogue: Catalogue | None,
) -> ToolSpec:
    """
    The tool as the catalogue's server has it now; without a catalogue, as far as the workflow
    itself tells.

    Raises InvalidInput: no such server or tool, or one that can't be offered to models; and
    ServerUnfit for a server that can't be asked.
    """
    if server_name not in servers:
        hint = did_you_mean(server_name, list(servers))
        raise InvalidInput(f"no server {server_name!r} under mcp{hint}")
    definition = servers[server_name] or McpServerDefinition(command=["?"])
    options = definition.options(tool)
    name = options.name or tool
    if not re.fullmatch(OFFERED_NAME, name):
        raise InvalidInput(
            f"{tool!r} is no name that models can call; give it one under "
            f"mcp.{server_name}.tools.{tool}.name"
        )
    server = server_of(definition)
    offered = None
    if catalogue is not None:
        try:
            tools = catalogue.tools(server)
        except InvalidInput as error:
            raise ServerUnfit(f"the server {server_name!r}: {error}") from None
        offered = _offered(server_name, tool, tools)
    return ToolSpec(
        name=name,
        description=offered.description[:MAX_DESCRIPTION] if offered else "",
        parameters=offered.parameters if offered else {},
        effect=options.effect,
        path=f"mcp:{server_name}/{tool}",
        digest=parameters_digest(offered.parameters) if offered else "",
        timeout_ms=options.timeout,
        permission=options.permission,
        mcp=McpTool(server=server, tool=tool),
    )


def server_of(definition: McpServerDefinition) -> McpServer:
    """How a server is reached, as plans keep it."""
    return McpServer(
        command=tuple(definition.command),
        url=definition.url,
        env=tuple(definition.env),
        bearer=definition.bearer,
        headers=definition.headers,
    )


def parameters_digest(parameters: dict[str, Any]) -> str:
    """SHA-256 of a tool's argument schema, by which a changed tool is known."""
    return digest_of(canonical(parameters))


def argument_validator(parameters: dict[str, Any]) -> Any:
    """
    What judges arguments, by the dialect that the schema names.

    Raises ValueError for a schema that can't be used, or that refers to others.
    """
    return jsonschema_rs.validator_for(parameters, retriever=_refused)


def _refused(uri: str) -> Any:
    raise ValueError("a schema refers to itself only")


def _offered(server_name: str, tool: str, tools: Mapping[str, OfferedTool]) -> OfferedTool:
    if tool not in tools:
        hint = did_you_mean(tool, list(tools))
        raise InvalidInput(f"the server {server_name!r} offers no tool {tool!r}{hint}")
    offered = tools[tool]
    if len(canonical(offered.parameters)) > MAX_PARAMETERS_BYTES:
        raise InvalidInput(
            f"the schema of {tool!r} has more than {MAX_PARAMETERS_BYTES:,} bytes, too much to be "
            "sent with every request"
        )
    try:
        argument_validator(offered.parameters)
    except ValueError:
        raise InvalidInput(f"the schema of {tool!r} can't be used: it is no JSON Schema") from None
    return offered
