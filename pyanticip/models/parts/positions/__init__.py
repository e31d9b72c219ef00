"""Position schemes."""
