"""Recipes: the stages from takes to a checkpoint, in a TOML file, and the command that runs them."""
