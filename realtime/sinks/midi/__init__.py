"""MIDI out: a table of the rig, what it makes of frames, and the process that has the port."""
