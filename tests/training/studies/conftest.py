"""Texts that the studies are tried on."""

from pathlib import Path

import pytest

import training

SOURCE = str(Path(__file__).resolve().parents[3] / "training")
if SOURCE not in training.__path__:  # the suite runs on the wheel, which has no studies
    training.__path__.append(SOURCE)


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """A text to learn from and one to test on."""
    lines = (
        "the quick brown fox jumps over the lazy dog and runs to the river\n"
        "a child throws the ball and the dog catches it near the old tree\n"
        "foxes come back again as foxes do when the night is quiet and cold\n"
    )
    folder = tmp_path_factory.mktemp("texts")
    for name, repeats in (("learn.txt", 16), ("test.txt", 6)):
        (folder / name).write_text(lines * repeats)
    return folder / "learn.txt", folder / "test.txt"
