from support.synthetic_motion import example_of, move, one_thread, piece_of

__all__ = ["example_of", "move", "one_thread", "piece_of"]
