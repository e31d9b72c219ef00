"""From the model's step to what the sinks are sent."""
