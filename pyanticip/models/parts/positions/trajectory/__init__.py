"""Positions that the path of the embeddings moves."""
