"""From a model's text to a value, or to the reason why not. Pure code."""
