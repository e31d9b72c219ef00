"""Teaching: takes from files and from the suit, their model features, fitting, and control over OSC.

Projects, heads and mapping files are in :mod:`pyanticip.teach`; here is what needs a stepped model, a socket
or a running show. Nothing here imports torch.
"""
