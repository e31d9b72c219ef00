"""The memory of earlier performances in a live show; the memory itself is :mod:`pyanticip.memory`."""
