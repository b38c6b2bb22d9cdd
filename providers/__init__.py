"""Who answers prompts: the port, litellm behind it, the scripted double."""
