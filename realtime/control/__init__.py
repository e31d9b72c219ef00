"""Control of a running pipeline: commands, their OSC server, live changes of the rig, calibration."""
