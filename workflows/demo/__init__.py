"""A first run: facts collected with a tool, checked by an agent each, written up, and mended."""
