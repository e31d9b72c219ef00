"""training of pyanticip."""
