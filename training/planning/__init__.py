"""Training and judging the planning signal on text."""
