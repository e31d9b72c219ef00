"""What runs of the trainer are compared by."""

import csv

import torch

CLOCK = ("seconds", "frames_per_second", "loader_wait")


def same_weights(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def rows(folder):
    """The metrics of a run but for what a clock says, as written."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [{name: v for name, v in row.items() if name not in CLOCK} for row in csv.DictReader(file)]
