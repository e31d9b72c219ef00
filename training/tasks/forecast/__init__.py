"""Where the body will be: the published benchmark of short-term motion prediction, and models for it."""
