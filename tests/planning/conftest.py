import pytest
import torch

LINES = (
    "the quick brown fox jumps over the lazy dog and runs to the river\n"
    "a child throws the ball and the dog catches it near the old tree\n"
    "foxes come back again as foxes do when the night is quiet and cold\n"
)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(name="texts", scope="session")
def texts_fixture(tmp_path_factory):
    """A text to learn from and one to test on."""
    folder = tmp_path_factory.mktemp("texts")
    for name, repeats in (("learn.txt", 16), ("test.txt", 6)):
        (folder / name).write_text(LINES * repeats)
    return folder / "learn.txt", folder / "test.txt"
