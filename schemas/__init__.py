"""Shapes at the edges: the workflow definition, its settings, published JSON Schemas."""
