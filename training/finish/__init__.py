"""Stages after training, each from a checkpoint to a checkpoint: blending, the event head."""
