"""Optional parts of a model besides its trunk: positions, control field, planning."""
