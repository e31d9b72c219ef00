from support.synthetic_motion import move

__all__ = ["move"]
