"""A real browser for agents: one tool with several commands, and the bridge that owns Chromium."""
