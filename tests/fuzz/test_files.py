"""Fuzzing of file readers: the seeds of :mod:`support.file_trees`, and a hundred mutations of each."""

import itertools
import random

import pytest
from support.file_trees import Target, attempt, inputs, targets

ALL = targets()


@pytest.mark.parametrize("target", ALL.values(), ids=ALL)
def test_seeds_are_read(target: Target) -> None:
    assert all(attempt(target, target.write(tree)) for tree in target.seeds)


@pytest.mark.parametrize("target", ALL.values(), ids=ALL)
def test_mutated_files_are_read_or_refused_in_one_line(target: Target) -> None:
    mutations = itertools.islice(inputs(target, random.Random(1)), 100)
    read = [attempt(target, data) for data in mutations]
    assert any(read)
    assert not all(read)
