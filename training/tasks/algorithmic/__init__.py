"""Algorithmic tasks that ask for length extrapolation (paper 001, section 6): data, training, evaluation."""
