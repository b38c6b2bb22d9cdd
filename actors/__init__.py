"""The I/O shells: Dramatiq actors that load, decide, append, and do one thing in the world."""
