"""Teachers, which define parameters and events from movement or sound, and causal twins of the parameters."""
