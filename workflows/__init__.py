"""Workflows that ship ready to run, written against the public API only."""
