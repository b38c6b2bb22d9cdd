"""Pure folds of the log: run state, trace, recovery, usage."""
