"""The weekly report: a scope and its materials to a draft that says nothing they do not."""
