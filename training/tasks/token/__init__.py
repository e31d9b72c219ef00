"""Training of the token models: data, options, losses, the run and its folder.

The options, the tokenizers and the synthetic sequences need no torch.
"""
