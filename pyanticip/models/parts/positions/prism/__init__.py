"""PRISM: positions as probability distributions held by learned cursors."""
