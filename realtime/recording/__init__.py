"""Writing a show to disk, and reading what was written."""
