"""The repair loop of an article that was made elsewhere: what `mulligan repair FOLDER` runs."""
