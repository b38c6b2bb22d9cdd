"""Invoices read from documents, repaired from a single field up to a new way of reading."""
