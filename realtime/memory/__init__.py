"""What the performer did before, at work in a show; the memory itself is :mod:`pyanticip.memory`."""
