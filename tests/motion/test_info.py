"""``pyanticip info`` of motion files, and the reading options of the other commands."""

import json
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.full_disk import full_disk
from support.odd_rigs import about, local_axes, turned_world, walker

import pyanticip as pa
from pyanticip.cli import cli
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.npz import save_npz


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A walk, z up, on bones with their own axes: as BVH, and as an npz without interpretation."""
    where = tmp_path_factory.mktemp("files")
    clip = turned_world(local_axes(walker(), 5), about((1.0, 0.0, 0.0), 90.0))
    save_bvh(clip, where / "odd.bvh")
    save_npz(clip, where / "odd.npz")
    return where


def test_a_file_is_described(folder):
    summary = json.loads(run("info", folder / "odd.bvh", "--json").stdout)
    assert (summary["kind"], summary["frames"], summary["rate"], summary["up"]) == ("bvh", 240, 60.0, "z")
    assert summary["unit"] == 0.01
    assert summary["map"]["left_upper_arm"] == ["LeftUpperArm"]
    assert summary["missing"] == []
    assert summary["agreement_mean"] < 2.0
    assert summary["refused"] is None
    assert len(summary["warnings"]) == 2
    text = run("info", folder / "odd.bvh").output
    assert "z is up, 0.01 m a unit" in text
    assert "  left_upper_arm   LeftUpperArm" in text
    assert "warning: the zero pose is no T-pose" in text


def test_what_is_refused_is_said(folder):
    result = run("info", folder / "odd.npz", "--json")
    summary = json.loads(result.stdout)
    assert "rest pose" in summary["refused"]
    assert summary["agreement"] == {}
    helped = run("info", folder / "odd.npz", "--json", "--up", "z", "--rest", "0")
    assert json.loads(helped.stdout)["refused"] is None
    assert (result.exit_code, helped.exit_code) == (1, 0)


def test_the_map_is_written_and_read(folder, tmp_path):
    written = run("info", folder / "odd.bvh", "--joints").stdout
    as_json = json.loads(run("info", folder / "odd.bvh", "--joints", "--json").stdout)
    toml = tomllib.loads(written)["joints"]
    assert as_json == {"joints": {j: [n] if isinstance(n, str) else n for j, n in toml.items()}}
    assert 'left_toes = "LeftToes"' in written
    (tmp_path / "map.toml").write_text(written.replace('left_toes = "LeftToes"', ""))
    summary = json.loads(run("info", folder / "odd.bvh", "--json", "--joints", tmp_path / "map.toml").stdout)
    assert summary["missing"] == ["left_toes"]
    assert "LeftToes (unmapped)" in summary["joints"]


def test_the_picture_shows_both_bodies(folder, tmp_path, monkeypatch):
    image = pytest.importorskip("matplotlib.image")
    assert run("info", folder / "odd.bvh", "--picture", tmp_path / "look.png").exit_code == 0
    pixels = image.imread(tmp_path / "look.png")[..., :3]
    blue = (pixels[..., 2] > 0.5) & (pixels[..., 0] < 0.3)
    half = len(pixels) // 2
    for part in (blue[:half], blue[half:]):
        assert part.sum() > 500
    (tmp_path / "odd $\\x$.bvh").write_bytes((folder / "odd.bvh").read_bytes())
    assert run("info", tmp_path / "odd $\\x$.bvh", "--picture", tmp_path / "look.svg").exit_code == 0
    (tmp_path / "odd \U0001f600.bvh").write_bytes((folder / "odd.bvh").read_bytes())
    with warnings.catch_warnings(), full_disk():
        warnings.simplefilter("error")  # of a character that no font has
        full = run("info", tmp_path / "odd \U0001f600.bvh", "--picture", tmp_path / "no.png")
    assert str(full.exception) == f"{tmp_path / 'no.png'}: cannot be written (file too large)"
    refused = run("info", folder / "odd.npz", "--picture", tmp_path / "no.png")
    assert isinstance(refused.exception, pa.MotionError)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    missing = run("info", folder / "odd.bvh", "--picture", tmp_path / "no.png")
    assert "needs matplotlib: pip install" in str(missing.exception)
    assert not (tmp_path / "no.png").exists()


def test_the_other_commands_take_the_same_help(folder, tmp_path):
    out = tmp_path / "odd.csv"
    words = ("render", folder / "odd.npz", "--out", out, "--no-model")
    assert "odd.npz: " in str(run(*words).exception)
    assert run(*words, "--up", "z", "--rest", "0").exit_code == 0
    before = out.read_bytes()
    rig = tmp_path / "rig.toml"
    rig.write_text('[source]\nup = "z"\nrest = 0\n')
    assert run(*words, "--rig", rig).exit_code == 0
    assert out.read_bytes() == before
    rig.write_text('[source]\nup = "w"\n')
    assert "source.up" in str(run(*words, "--rig", rig).exception)
    replayed = run(
        "replay", folder / "odd.npz", "--speed", "max", "--no-model", "--up", "z", "--rest", 0, "--json"
    )
    assert json.loads(replayed.stdout)["counters"]["frames"] > 150
    assert "odd.npz: " in str(run("replay", folder / "odd.npz", "--speed", "max").exception)
    sent = run("send", folder / "odd.npz", "--as", "msgpack", "--to", "127.0.0.1:9", "--seconds", 0.1)
    assert "odd.npz: " in str(sent.exception)
    building = ("train", "data", "build", folder, "--out", tmp_path / "set", "--json", "--workers", 1)
    built = json.loads(run(*building).stdout)
    assert [line["path"] for line in built["refused"]] == ["odd.npz"]
    helped = json.loads(run(*building, "--up", "z", "--rest", 0).stdout)
    assert helped["refused"] == []


def test_an_amc_is_given_its_skeleton(data_dir, tmp_path):
    take = tmp_path / "take.amc"
    take.write_bytes((data_dir / "cmu/09_01.amc").read_bytes())
    asf = data_dir / "cmu/09.asf"
    assert "give --skeleton" in str(run("info", take).exception)
    summary = json.loads(run("info", take, "--skeleton", asf, "--json").stdout)
    assert summary["frames"] > 100
    assert np.isclose(summary["unit"], 0.056444, atol=1e-6)
    done = run("render", take, "--skeleton", asf, "--out", tmp_path / "take.csv", "--no-model", "--json")
    assert json.loads(done.stdout)["frames"] > 40


def test_the_command_line_says_what_a_file_does_not(data_dir, tmp_path):
    take = data_dir / "cmu/09_01.amc"
    summary = json.loads(run("info", take, "--json").stdout)
    overridden = json.loads(run("info", take, "--rate", 60, "--units", "0.05", "--json").stdout)
    assert overridden["duration_s"] == pytest.approx(2 * summary["duration_s"], rel=0.01)
    assert overridden["unit"] == 0.05
    assert not any("no rate" in line for line in overridden["warnings"])
    rig, lengths = tmp_path / "rig.toml", []
    rig.write_text("[source]\nrate = 60\nunits = 'cmu'\n")
    for how in (("--rig", rig), ("--rate", 60), ()):
        words = ("render", take, *how, "--out", tmp_path / "take.csv", "--no-model", "--json")
        lengths.append(json.loads(run(*words).stdout)["seconds"])
    assert lengths[0] == lengths[1] == pytest.approx(2 * lengths[2], rel=0.05)
    to = ("--as", "msgpack", "--to", "127.0.0.1:9", "--json")
    sent = run("send", take, *to, "--rate", 10, "--file-rate", 240)
    assert json.loads(sent.stdout)["seconds"] == pytest.approx(summary["duration_s"] / 2, abs=0.3)
    assert "units is one of m, cm" in str(run("info", take, "--units", "ell").output)
