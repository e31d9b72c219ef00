"""The motion model: feature rows in, sound parameters and events out."""
