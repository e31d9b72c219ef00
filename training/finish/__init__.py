"""Stages after training, each from a checkpoint to a checkpoint: the event head and the pose head."""
