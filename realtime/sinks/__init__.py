"""Where control frames go."""
