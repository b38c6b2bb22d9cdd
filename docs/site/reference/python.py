"""The Python API out of its docstrings, by what one wants to do."""

from __future__ import annotations

from collections.abc import Iterator

SECTIONS: dict[str, tuple[str, ...]] = {
    "Workflows in code": (
        "class mulligan.schemas.builder.Workflow",
        "class mulligan.schemas.builder.NodeHandle",
        "class mulligan.schemas.builder.SubagentHandle",
        "class mulligan.schemas.builder.McpHandle",
        "class mulligan.schemas.builder.SettingsOptions",
        "class mulligan.schemas.builder.AgentOptions",
        "class mulligan.schemas.builder.McpOptions",
        "class mulligan.app.App",
    ),
    "Tools and functions": (
        "function mulligan.tools.registry.tool",
        "class mulligan.tools.registry.Tool",
        "exception mulligan.errors.ToolError",
        "exception mulligan.tools.input_needed.InputNeeded",
        "class mulligan.schemas.run_context.RunContext",
    ),
    "Runs": (
        "class mulligan.client.Client",
        "class mulligan.async_client.AsyncClient",
        "class mulligan.schedules.Schedules",
        "class mulligan.schedule_views.ScheduleView",
        "class mulligan.projections.state.RunState",
        "class mulligan.events.envelope.Envelope",
        "class mulligan.events.payload.Payload",
    ),
    "A single agent": (
        "function mulligan.single_call.invoke",
        "function mulligan.single_call.ainvoke",
        "class mulligan.single_call.InvokeOptions",
        "class mulligan.single_call.Invoked",
    ),
    "Judging output": ("function mulligan.completion.check.check_output",),
    "Repair": ("module mulligan.quality.report", "module mulligan.quality.rework"),
    "The browser from your code": (
        "class mulligan.tools.web_use.client.BridgeClient",
        "class mulligan.tools.web_use.caller.Caller",
        "module mulligan.tools.web_use.commands",
    ),
    "Reports to a site": ("function mulligan.workflows.report.site.delivery",),
    "Settings": (
        "class mulligan.settings.Settings",
        "function mulligan.settings.load_settings",
    ),
    "Testing": (
        "module mulligan.testing.in_memory",
        "module mulligan.testing.scripted_provider",
        "module mulligan.testing.script",
        "module mulligan.testing.scripted_model",
        "module mulligan.testing.simulation",
        "module mulligan.testing.given",
        "module mulligan.testing.checker",
        "module mulligan.testing.journal",
        "module mulligan.testing.server",
        "module mulligan.testing.worker",
        "module mulligan.testing.tcp_proxy",
        "module mulligan.testing.crash_listener",
    ),
}
"""What is public beside the errors and the events, which have pages of their own."""


def python() -> str:
    """A section for each of them."""
    return "\n".join(line for title, names in SECTIONS.items() for line in _section(title, names))


def _section(title: str, names: tuple[str, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    for kind, _, name in (one.partition(" ") for one in names):
        members = "" if kind == "function" else "   :members:\n"
        yield f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{members}```\n"
