"""From takes to a checkpoint: the stages that made a model, in a TOML file, and what makes it anew."""
