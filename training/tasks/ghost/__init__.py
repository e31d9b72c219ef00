"""The ghost of the monitor: where every joint will be in the next 400 ms."""
