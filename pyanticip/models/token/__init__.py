"""Token models: the anticipatory transformer, the plain baseline, and generation."""
