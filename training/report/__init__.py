"""What reports are made of: pages, tables, statistics."""
