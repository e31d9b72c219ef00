"""sinks of pyanticip."""
