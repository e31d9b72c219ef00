"""Building blocks of reports: pages, tables, statistics."""
