"""The planning signal: what is foreseen, for the first attention layer to look at."""
