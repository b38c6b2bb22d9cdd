"""Reading files for agents: text and PDF, within the folders that a run may read (READ-1)."""
