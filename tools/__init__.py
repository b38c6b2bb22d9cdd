"""What agents may call: typed functions with an effect class."""
