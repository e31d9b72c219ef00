"""The forecaster of the monitor's ghost: positions of all joints in the next 400 ms."""
