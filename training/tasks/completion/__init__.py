"""Completion of a body measured by few sensors: the network that predicts the other joints."""
