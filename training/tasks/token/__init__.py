"""The task ``language``: data, options, losses, evaluation, and the folder of a run.

Options, tokenizers and synthetic sequences do not import torch.
"""
