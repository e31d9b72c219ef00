"""What every training run needs, whatever it trains: options, tasks, processes, the recorder, the loop."""
