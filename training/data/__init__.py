"""Training data: finding takes, preparing sets, windows and batches, augmentation and corruption."""
