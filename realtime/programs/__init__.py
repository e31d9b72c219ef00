"""Implementations of the `pyanticip` commands that play, monitor, record and send, one module each."""
