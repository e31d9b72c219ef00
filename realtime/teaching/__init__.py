"""Teaching: takes from files and from the suit, what the model says about them, fitting, the remote control.

The project, the heads and the mapping file are :mod:`pyanticip.teach`; here is what needs a model that steps,
a socket or a running show. Nothing here imports torch.
"""
