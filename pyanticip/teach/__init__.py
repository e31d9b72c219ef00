"""Teaching by demonstration: projects of takes, fitted heads, and mapping files.

NumPy only, no torch: the live path applies a mapping, and may fit one during a running show. The model's
features come from outside (:mod:`realtime.teaching` steps the model over the takes).
"""
