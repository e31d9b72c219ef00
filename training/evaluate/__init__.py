"""Evaluation of motion models on held-out people: baselines, events, following, tempo, sensors, reports."""
