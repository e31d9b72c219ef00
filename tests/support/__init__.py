"""Helpers shared by tests: synthetic motion, third-party files and packets, reference implementations."""
