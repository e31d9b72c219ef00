import shutil
from dataclasses import replace

import pytest

from training.data.examples import example_from_piece
from training.data.sets.format import ClipEntry
from training.data.sets.writer import SetWriter


@pytest.fixture(scope="session")
def set_of():
    """``set_of(folder, {side: pieces}, words)`` makes a set of synthetic pieces described by ``words``."""

    def make(folder, sides, words=()):
        said = dict(words)
        with SetWriter(folder) as writer:
            for side, pieces in sides.items():
                for piece in pieces:
                    taught = example_from_piece(piece)
                    file = f"{piece.name}.bvh"
                    who = (piece.name, piece.subject, side)
                    entry = ClipEntry(*who, 0, 0, (), file, None, 0.0, "teacher", (0, 0, 0))
                    entry = replace(entry, words=said.get(piece.name, ""))
                    writer.append(entry, taught, piece.root)
            writer.finish(made_by={}, sources=[], refused=[], warnings=[])
        shutil.rmtree(folder / ".work")
        return folder

    return make
