"""Judging a motion model on people it never saw: rivals, events on the beat, calibration, suits, report."""
