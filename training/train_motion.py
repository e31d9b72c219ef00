"""`pyanticip train motion`: from a folder of takes to a checkpoint that can play."""
