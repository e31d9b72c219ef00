"""What the parameters and events are: by hand-made measures of the body, or from sound; and causal twins."""
