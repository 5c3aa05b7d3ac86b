"""A second reader: a chat model says which option a stored answer chooses, by a fixed prompt, beside the rules."""
