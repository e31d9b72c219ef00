"""MIDI out: its options, the translation of frames into messages, and the process that owns the port."""
