"""The commands of `mulligan`, one a file."""
