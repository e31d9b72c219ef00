"""``piece.memory``: saving and loading, and one clear error for anything that is not a memory."""

from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyanticip._core import Follower, Memory
from pyanticip.errors import FormatError, OptionError
from pyanticip.memory import load_memory, load_rehearsal, rehearse, save_memory
from pyanticip.memory.files import KeptTakes


@pytest.fixture
def saved(move, tmp_path):
    memory = rehearse([("a name, été", move(250, seed=1)), ("two", move(250, seed=2))])
    path = tmp_path / "piece.memory"
    save_memory(memory, path)
    return memory, path


def test_what_was_saved_is_loaded_and_says_the_same(saved, move):
    memory, path = saved
    loaded = load_memory(path, capacity=1000)
    assert loaded.takes == ["a name, été", "two"]
    assert len(loaded) == len(memory) == loaded.rehearsed
    quats = move(300, seed=3)
    assert np.array_equal(loaded.push_many(quats)[0], memory.push_many(quats)[0])
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["piece.memory"]


def test_what_was_learned_while_playing_is_saved_as_well(saved, move):
    memory, path = saved
    memory.push_many(move(400, seed=4))
    save_memory(memory, path)
    loaded = load_memory(path)
    assert loaded.takes == ["a name, été", "two", "live 3"]
    assert loaded.rehearsed == len(memory)
    for one, other in zip(memory.moments()[1:], loaded.moments()[1:], strict=True):
        assert np.array_equal(one, other)


def test_takes_that_are_followed_are_saved_again_as_they_were(saved, move):
    memory, path = saved
    save_memory(memory, path, {"two": move(250, seed=2), "a name, été": move(251, seed=1)})
    takes = load_rehearsal(path).takes
    assert [(name, len(quats)) for name, quats in takes.items()] == [("two", 249), ("a name, été", 251)]
    follower = Follower(takes.values())
    kept = KeptTakes({name: partial(follower.poses, number) for number, name in enumerate(takes)})
    again = path.with_name("again.memory")
    save_memory(memory, again, kept)
    poses = [safetensors.numpy.load_file(file)["poses"].astype(int) for file in (path, again)]
    assert np.abs(poses[0] - poses[1]).max() <= 1


def test_what_is_kept_of_takes_is_saved_as_it_is(saved, move, monkeypatch):
    """An hour of them is not made again first, while somebody plays."""
    memory, path = saved
    save_memory(memory, path, {"two": move(250, seed=2)})
    loaded, takes, _ = load_rehearsal(path)
    monkeypatch.setattr("pyanticip.memory.files.resample", None)
    again = path.with_name("again.memory")
    save_memory(loaded, again, takes)
    poses = [safetensors.numpy.load_file(file)["poses"] for file in (path, again)]
    np.testing.assert_array_equal(*poses)


def test_nothing_is_not_saved(tmp_path):
    with pytest.raises(OptionError, match="nothing"):
        save_memory(Memory(), tmp_path / "empty.memory")


def test_nothing_but_a_memory_is_overwritten(saved):
    memory, path = saved
    other = path.with_name("take.bvh")
    for there in (b"", b"HIERARCHY"):
        other.write_bytes(there)
        with pytest.raises(OptionError, match=r"take\.bvh: already exists and is not a memory$"):
            save_memory(memory, other)
        assert other.read_bytes() == there
    path.write_bytes(path.read_bytes()[:-1])
    save_memory(memory, path)
    assert len(load_memory(path)) == len(memory)


def refused(path, data, match="memory"):
    path.write_bytes(data)
    with pytest.raises(FormatError, match=match) as error:
        load_memory(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_what_is_no_memory_is_refused(saved):
    memory, path = saved
    data = path.read_bytes()
    _, keys, followed, origins = memory.moments()
    about = {"format": "pyanticip-memory", "version": "1", "keys": "1", "takes": '["a", "b"]'}
    arrays = {"keys": keys, "followed": followed, "origins": origins, "poses": np.zeros((0, 89), np.int16)}

    def made(changes=None, **others):
        return safetensors.numpy.save(arrays | others, metadata=about | (changes or {}))

    for other in (b"", b"\x89PNG\r\n\x1a\n" * 40, made({"format": "other"}), safetensors.numpy.save(arrays)):
        refused(path, other, "is not a memory; pyanticip rehearse writes them$")
    refused(path, data[:-1], "is a damaged memory: ")
    refused(path, made({"version": "2"}), "version 1")
    refused(path, made({"keys": "0"}), "rehearse again")
    refused(path, made({"takes": '["a"]'}), "takes")
    refused(path, made({"takes": "{}"}), "takes")
    refused(path, made({"takes": "["}))
    refused(path, made(keys=keys.astype(np.int32)), "keys")
    refused(path, made(keys=keys[:, :-1].copy()), "keys")
    refused(path, made(keys=keys[:-1].copy()), "keys")
    refused(path, made(followed=followed[:-1].copy()), "followed")
    refused(path, made(keys=np.full_like(keys, 3000)), "2048")
    refused(path, made(more=keys), "expected")
    with pytest.raises(FormatError, match="no such file"):
        load_memory(path.parent / "missing.memory")
    path.write_bytes(data)
    for room in (len(memory) - 1, 1):
        with pytest.raises(FormatError, match=rf"holds {len(memory)} moments, and there is room for {room}$"):
            load_memory(path, capacity=room)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.binary(max_size=8), st.integers(0, 40)), min_size=1, max_size=5
    ),
    front=st.booleans(),
)
def test_damaged_files_are_memories_or_refused(saved, edits, front):
    _, path = saved
    data = bytearray(path.read_bytes())
    reach = 700 if front else len(data)  # most of what can go wrong stands in the header
    for place, content, dropped in edits:
        at = int(place * reach)
        data[at : at + dropped] = content
    damaged = path.with_name("damaged.memory")
    damaged.write_bytes(bytes(data))
    with suppress(FormatError):
        load_memory(damaged).push_many(np.tile(np.array([1.0, 0.0, 0.0, 0.0]), (40, 22, 1)))
