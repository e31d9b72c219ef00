"""Turn a stream of joint rotations into anticipation, and anticipation into sound control."""
