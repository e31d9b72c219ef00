"""Files that a recording names are found by their SHA-256, wherever they were moved."""

import hashlib
from pathlib import Path

import pytest

from pyanticip.errors import FormatError
from pyanticip.motion.recording import RecordingWriter
from realtime.clock import OfflineClock
from realtime.rig import Rig, load_rig
from realtime.rig.source import ModelRig
from realtime.sources.named_files import find_file, resolve_arguments
from realtime.sources.replay import Command, open_show
from realtime.stage import assemble, recording_header

TRUE = hashlib.sha256(b"true").hexdigest()


def write(path: Path, data: bytes = b"true") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_file_is_found_at_its_path_among_the_fits_and_beside_the_recording(tmp_path: Path) -> None:
    recording = tmp_path / "away" / "show.anticip"
    name = "mine/mapping.safetensors"
    assert find_file(name, TRUE, recording) == name, "not found: the recorded path"
    beside = write(tmp_path / "away" / "mapping.safetensors", b"another")
    assert find_file(name, TRUE, recording) == str(beside), "the reader reports a changed file"
    write(beside)
    assert find_file(name, TRUE, recording) == str(beside)
    fit = write(tmp_path / "away" / "mine" / "mappings" / "r000003-001.safetensors")
    write(tmp_path / "away" / "mine" / "mapping.safetensors", b"a later fit")
    assert find_file(name, TRUE, recording) == str(fit)
    there = tmp_path / name
    write(there, b"a later fit")
    old = write(tmp_path / "mine" / "mappings" / "r000001-001.safetensors")
    assert find_file(str(there), TRUE, recording) == str(old)
    write(there)
    assert find_file(str(there), TRUE, recording) == str(there)
    # Of a checkpoint, the weights are hashed.
    model = write(tmp_path / "away" / "other" / "model.safetensors").parent
    assert resolve_arguments("model", ("other", TRUE), recording) == (str(model), TRUE)
    assert resolve_arguments("model", ("", TRUE), recording) == ("", TRUE), "the packaged one"
    assert resolve_arguments("gain", ("other", 1.0), recording) == ("other", 1.0)


def test_files_are_found_from_the_show_s_folder_and_under_another_name(tmp_path, monkeypatch):
    """The recording was moved, and is played from a third folder."""
    for name in ("ran/sub/eve.memory", "ran/model/model.safetensors"):
        write(tmp_path / name)
    (tmp_path / "ran" / "sounds").mkdir()
    for name in ("kept", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "ran")
    memory = {"file": "sub/eve.memory", "sha256": TRUE}
    recorded_rig = load_rig(
        None, {"memory": memory, "model": {"checkpoint": "model"}, "synth": {"samples": "sounds"}}
    )
    header = recording_header(
        recorded_rig, assemble(Rig(osc=(), model=ModelRig(enabled=False)), OfflineClock())
    )
    assert header["folder"] == str(tmp_path / "ran")
    header["rig"] = recorded_rig.model_dump(mode="json", by_alias=True)
    header["model"] = {"sha256": {"model.safetensors": TRUE}}
    with RecordingWriter(tmp_path / "kept" / "show.anticip", header) as tape:
        tape.control(5, "memory", ("sub/eve.memory", TRUE))
        tape.raw(9, "msgpack", b"")
    monkeypatch.chdir(tmp_path / "here")
    rig = load_rig(None, None, tmp_path / "kept" / "show.anticip")
    assert rig.memory.file == str(tmp_path / "ran" / "sub" / "eve.memory")
    assert rig.model.checkpoint == str(tmp_path / "ran" / "model")
    assert rig.synth.samples == str(tmp_path / "ran" / "sounds")
    renamed = (tmp_path / "ran" / "sub" / "eve.memory").rename(tmp_path / "kept" / "Eve (copy).memory")
    assert load_rig(None, None, tmp_path / "kept" / "show.anticip").memory.file == str(renamed)
    _, items = open_show(tmp_path / "kept" / "show.anticip")
    assert next(iter(items)) == Command(5, "memory", (str(renamed), TRUE))
    write(tmp_path / "ran" / "model" / "model.safetensors").rename(tmp_path / "away")
    (tmp_path / "ran" / "model").rmdir()
    with pytest.raises(
        FormatError, match=r"the checkpoint that .* \(model, .*; expected --checkpoint FOLDER$"
    ):
        load_rig(None, None, tmp_path / "kept" / "show.anticip")
    for recorded_rig in ({"checkpoint": "other"}, {"enabled": False}):
        load_rig(None, {"model": recorded_rig}, tmp_path / "kept" / "show.anticip")
    lacks = {"rig": {"mapping": "mine/mapping.safetensors"}, "mapping": {"sha256": TRUE}}
    RecordingWriter(tmp_path / "kept" / "taught.anticip", lacks).close()
    with pytest.raises(FormatError, match=r"the mapping that .* \(mine/mapping.*; expected --mapping FILE$"):
        load_rig(None, None, tmp_path / "kept" / "taught.anticip")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "/dev/zero", "mappings/..", "/"])
def test_unusable_names_are_returned_unchanged(tmp_path: Path, name: str) -> None:
    assert find_file(name, TRUE, tmp_path / "show.anticip") in (name, str(tmp_path / name))


def test_a_replay_uses_the_recorded_fit_of_the_mapping(tmp_path: Path) -> None:
    began = write(tmp_path / "mine" / "mapping.safetensors", b"a later fit")
    fit = write(tmp_path / "mine" / "mappings" / "r000001-001.safetensors")
    header = {"rig": {"mapping": str(began)}, "mapping": {"name": "mine", "sha256": TRUE}}
    RecordingWriter(tmp_path / "show.anticip", header).close()
    assert load_rig(None, None, tmp_path / "show.anticip").mapping == str(fit)
    chosen = load_rig(None, {"mapping": str(began)}, tmp_path / "show.anticip")
    assert chosen.mapping == str(began), "the command line takes precedence"
