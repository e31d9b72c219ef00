import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mappings import rebuilt

from pyanticip.errors import CheckpointError, FormatError, MotionError
from pyanticip.teach.fit import fit_parts
from pyanticip.teach.frames import BODY, TakeData
from pyanticip.teach.mapping import load_mapping, pack_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from realtime.programs.check import check_show
from realtime.rig import load_rig

OUTPUTS = (Output("brightness"), Output("cutoff", 200, 8000, "exponential"))


def takes() -> list[TakeData]:
    random = np.random.default_rng(0)
    made = []
    for i in range(4):
        walk = np.cumsum(random.normal(size=(120, BODY)), 0).astype(np.float32) * 0.05 + i % 2
        wanted = {"brightness": np.full(120, float(i % 2)), "cutoff": np.full(120, 0.3 + 0.2 * (i % 2))}
        made.append(TakeData(f"take {i}", {"body": walk, "hidden": walk[:, :32] + 1}, 0, wanted))
    return made


def packed(kind: str = "ridge", inputs: tuple[str, ...] = ("body", "hidden"), **more: object) -> bytes:
    options = FitOptions(kind=kind, inputs=inputs)
    model = {"name": "mine-12345678", "sha256": "a" * 64} if "hidden" in inputs else None
    return pack_mapping(
        fit_parts(takes(), OUTPUTS, options),
        OUTPUTS,
        options,
        mask=[True] * 20 + [False] * 2,
        model=model,
        origin={"name": "mine-r7", "revision": 7, **more},
    )


@pytest.fixture(scope="module")
def whole() -> bytes:
    return packed()


@pytest.mark.parametrize("kind", ["ridge", "knn", "mlp"])
def test_a_mapping_comes_back_and_plays_as_it_was_fitted(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(packed(kind))
    mapping = load_mapping(file)
    assert mapping.name == "mine-r7"
    assert [o.name for o in mapping.outputs] == ["brightness", "cutoff"]
    assert (mapping.hidden, mapping.needs_model, mapping.inputs) == (32, True, ("body", "hidden"))
    assert mapping.reports[0]["kind"] == kind
    for take in takes():
        together = mapping.apply_batch(take.blocks)
        wanted = np.stack([take.targets[o.name] for o in mapping.outputs], 1)
        assert np.abs(together[25:] - wanted[25:]).mean() < 0.1
        for t in (0, 60, 119):
            values, novelty = mapping.apply({name: block[t] for name, block in take.blocks.items()})
            assert values == pytest.approx(together[t].tolist(), abs=1e-4)
            assert all(v >= 0 for v in novelty)


def test_novelty_grows_away_from_what_was_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(packed(inputs=("body",)))
    mapping = load_mapping(file)
    shown = takes()[0].blocks["body"][60]
    near, far = (mapping.apply({"body": (shown + step).astype(np.float32)})[1][0] for step in (0.0, 30.0))
    assert near < 1.0 < far


def test_it_belongs_to_one_model_and_to_a_body(tmp_path: Path, whole: bytes) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(whole)
    mapping = load_mapping(file)
    mapping.check_model("mine", "a" * 64, 32)
    with pytest.raises(
        CheckpointError, match="taught on model mine-12345678, this one is other-1: fit it again"
    ):
        mapping.check_model("other-1", "b" * 64, 32)
    with pytest.raises(CheckpointError, match="hidden state of 32 numbers, model mine tells none"):
        mapping.check_model("mine", "a" * 64, 0)
    # As `rig check` finds before a show is refused.
    rig = load_rig(None, {"mapping": str(file)})
    with pytest.raises(CheckpointError, match="taught on model mine-12345678, this one is"):
        check_show(rig)
    with pytest.raises(CheckpointError, match="taught on model mine-12345678 and needs it"):
        check_show(load_rig(None, {"mapping": str(file), "model": {"enabled": False}}))
    theirs = rig.model.model_copy(update={"backend": "theirs"})
    check_show(rig.model_copy(update={"model": theirs}))
    assert mapping.missing_joints([True] * 22) == []
    assert mapping.missing_joints([True] * 17 + [False] * 5) == [
        "left_toes",
        "right_upper_leg",
        "right_lower_leg",
    ]
    file.write_bytes(packed(inputs=("body",)))
    load_mapping(file).check_model("any", "c" * 64, 0)
    check_show(rig)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 4}, "newer than this program's"),
        ({"version": "1"}, "whole number"),
        ({"features_version": 9}, "features version 9"),
        ({"format": "x"}, "is not a mapping"),
        ({"mask": "11"}, "mask"),
        ({"model": {"name": 5}}, "lacks a valid|invalid"),
        ({"beyond": "shout"}, "beyond"),
        ({"novelty": -1}, "novelty"),
        ({"lead_ms": 10**9}, "lead_ms"),
        ({"parts": []}, "heads"),
        (
            {"parts": [{"outputs": ["cutoff"], "inputs": ["body"], "kind": "ridge", "report": {}}]},
            "does not fit|one head",
        ),
        ({"parts": [{"outputs": ["other"], "inputs": ["body"], "kind": "ridge", "report": {}}]}, "lacks"),
        ({"parts": [{"outputs": ["cutoff"], "inputs": ["soul"], "kind": "ridge", "report": {}}]}, "inputs"),
        ({"parts": [{"outputs": ["cutoff"], "inputs": ["body"], "kind": "forest", "report": {}}]}, "lacks"),
        ({"outputs": [{"name": "x", "low": 1, "high": 1}]}, "two different ends"),
        ({"sha256": "0" * 64}, "damaged"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, whole, change, reason):
    file = tmp_path / "bad.safetensors"
    file.write_bytes(rebuilt(whole, lambda tree: tree.update(change)))
    with pytest.raises((FormatError, CheckpointError), match=reason) as told:
        load_mapping(file)
    assert "\n" not in str(told.value)
    assert "bad.safetensors" in str(told.value)


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("mine-r7", "mine-r7"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "take.safetensors"),
        ("", "take.safetensors"),
        ("two\nlines", "take.safetensors"),
        (7, "take.safetensors"),
        (None, "take.safetensors"),
    ],
)
def test_a_mapping_whose_name_cannot_be_shown_is_called_as_its_file(tmp_path, given, called):
    file = tmp_path / "take.safetensors"
    file.write_bytes(packed(name=given))
    assert load_mapping(file).name == called


def test_missing_foreign_cut_and_huge_files(tmp_path: Path, whole: bytes) -> None:
    with pytest.raises(FormatError, match="no such file"):
        load_mapping(tmp_path / "none")
    with pytest.raises(FormatError, match="is a folder; a project's mapping is"):
        load_mapping(tmp_path)
    other = tmp_path / "other.txt"
    for data in (b"", b"hello", struct.pack("<Q", 1 << 60) + b"{}", b"\x80\x04pickle" * 10):
        other.write_bytes(data)
        with pytest.raises(FormatError, match="is not a mapping"):
            load_mapping(other)
    other.write_bytes(whole[:-10])
    with pytest.raises(FormatError, match="is not a usable mapping: is cut or damaged"):
        load_mapping(other)
    with other.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(FormatError, match="larger than 64 MB"):
        load_mapping(other)


@settings(max_examples=150)
@given(data=st.data())
def test_damage_is_an_error_or_changes_nothing(tmp_path_factory, whole, data):
    bad = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(bad), len(bad) - 1, len(bad) // 2]))
    file = tmp_path_factory.mktemp("bad") / "bad.safetensors"
    file.write_bytes(bytes(bad[:cut]))
    try:
        mapping = load_mapping(file)
    except MotionError:
        return
    blocks = {"body": np.zeros(BODY, np.float32), "hidden": np.zeros(mapping.hidden, np.float32)}
    values, _ = mapping.apply(blocks)
    assert all(0 <= v <= 1 for v in values)
