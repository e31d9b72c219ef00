"""The control field: a running estimate of which steps to trust."""
