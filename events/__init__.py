"""The facts and their log: structs, envelope, codec, keys, the store and its scripts."""
