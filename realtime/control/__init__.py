"""The performer's hand on a running pipeline: commands, their OSC server, calibration."""
