"""Gates: deterministic judgements of a Markdown text, each fault with its line and column."""
