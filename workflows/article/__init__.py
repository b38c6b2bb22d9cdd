"""An article: what its drafts are held to, and how they are edited."""
