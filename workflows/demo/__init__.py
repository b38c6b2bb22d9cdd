"""A first run: facts are collected with a tool, checked by an agent each, and joined."""
