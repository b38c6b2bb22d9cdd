"""MCP servers as sources of tools (TOOL-3), by the official SDK."""
