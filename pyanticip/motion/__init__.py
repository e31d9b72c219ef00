"""Skeletons and clips, readers and writers of motion files and recordings, retargeting and resampling."""
