"""Public test doubles: the scripted model server, in-memory runs, fixtures."""
