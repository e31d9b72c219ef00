"""From the model's output to the values that are sent to the sinks."""
