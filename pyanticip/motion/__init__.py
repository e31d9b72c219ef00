"""Skeletons, clips, readers; typed face of retargeting and resampling."""
