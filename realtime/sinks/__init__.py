"""Receivers of control frames: OSC, MIDI, Link and others."""
