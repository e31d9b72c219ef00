"""Positions that depend on the path of the embeddings."""
