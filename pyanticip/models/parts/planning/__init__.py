"""The planning signal: predicted codes of the next steps, which the first attention layer attends to."""
