"""What the trainer trains: tasks with options, data, model, loss and judge of their own."""
