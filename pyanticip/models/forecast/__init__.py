"""The pose forecaster."""
