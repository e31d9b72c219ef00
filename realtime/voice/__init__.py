"""The built-in synth: a separate process that receives OSC like any other target."""
