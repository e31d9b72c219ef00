"""PRISM: positions as probabilities that learned cursors keep."""
