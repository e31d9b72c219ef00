"""The token models: the anticipatory transformer, the plain one, and generation."""
