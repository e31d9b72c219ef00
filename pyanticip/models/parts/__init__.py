"""What a model may have besides its trunk: positions, control field, planning."""
