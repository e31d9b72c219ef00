"""The trainer shared by all tasks: options, the task interface, processes, the recorder, the loop."""
