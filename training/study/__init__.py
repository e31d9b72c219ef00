"""Studies: many small runs, equal but for one thing, each kept in a file of its own; and what they say."""
