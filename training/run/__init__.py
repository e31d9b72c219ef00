"""What every training run needs, whatever it trains: options, processes, signals, the books, the loop."""
