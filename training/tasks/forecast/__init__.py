"""The task ``forecast``: the published benchmark of short-term motion prediction, and models for it."""
