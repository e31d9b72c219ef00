"""Teaching by demonstration: what a project holds, how a head is fitted, and what a mapping file is.

NumPy only, no torch: the live path applies a mapping, and may fit one beside a running show. The trunk's
features come from outside (:mod:`realtime.teaching` steps the model over the takes).
"""
