"""A body from few sensors: the network that says the joints nobody measured."""
