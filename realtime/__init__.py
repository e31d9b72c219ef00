"""realtime of pyanticip."""
