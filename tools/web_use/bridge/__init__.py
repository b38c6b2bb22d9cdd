"""The process that owns Chromium; only `mulligan browser` imports it, and Playwright with it."""
