"""The built-in voice: a process of its own that is one more OSC target."""
