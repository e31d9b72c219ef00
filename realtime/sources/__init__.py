"""sources of pyanticip."""
