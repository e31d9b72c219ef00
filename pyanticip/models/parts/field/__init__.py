"""The control field: a running sense of what to trust."""
