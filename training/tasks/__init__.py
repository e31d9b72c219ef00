"""What can be trained: motion, tokens, algorithmic tasks, forecasts of poses."""
