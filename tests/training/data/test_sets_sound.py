"""Sounds beside takes: found and aligned, with warnings where they do not fit."""

import dataclasses
import unicodedata

import numpy as np
import pytest

from pyanticip.errors import FormatError, OptionError
from training.data.sets import MotionSet, Recipe, augment, build, merge
from training.data.sets.discover import discover
from training.data.sets.sounds import Sound, pair
from training.data.sets.splits import sides_of

pytest.importorskip("librosa")
soundfile = pytest.importorskip("soundfile")

RATE = 16_000


def clicks(path, times, length, channels=1):
    t = np.arange(round(length * RATE)) / RATE
    sound = sum(
        np.where(t >= at, np.exp(-(t - at).clip(0.0) / 0.05), 0.0) * np.sin(2 * np.pi * 440.0 * (t - at))
        for at in times
    )
    left = 0.3 * np.asarray(sound)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, left if channels == 1 else np.stack([left, 0.0 * left], axis=1), RATE)


TIMES = np.array([0.52, 1.0, 1.3, 1.92, 2.6, 3.1])


@pytest.fixture
def folder(tmp_path, take):
    take(tmp_path / "takes" / "a" / "one.bvh", 200, 1)
    take(tmp_path / "takes" / "b" / "two.bvh", 200, 2)
    return tmp_path / "takes"


def test_a_sound_beside_a_take_teaches_it(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES, 4.0)
    report = build(folder, tmp_path / "set")
    found = MotionSet.open(tmp_path / "set")
    assert [clip.targets for clip in found.clips] == ["audio", "teacher"]
    example = found.example(0)
    assert len(example) == 200
    assert np.abs(example.onsets / 50.0 - TIMES).max() <= 0.02
    # 440 Hz is three of five octaves above 55 Hz.
    np.testing.assert_allclose(example.params[:, 0], 0.6, atol=0.02)
    assert not any("sound of" in line for line in report.warnings)
    # Mono: space and pan come from the teacher.
    build(folder, tmp_path / "plain", sound="none")
    taught = MotionSet.open(tmp_path / "plain").example(0)
    np.testing.assert_array_equal(example.params[:, [5, 6]], taught.params[:, [5, 6]])
    np.testing.assert_array_equal(example.features, taught.features)
    assert any("one channel" in note for note in found.index["sources"][0]["notes"])


def test_a_stereo_sound_has_its_own_place(folder, tmp_path):
    clicks(folder / "a" / "one.flac", TIMES, 4.0, channels=2)
    build(folder, tmp_path / "set")
    assert MotionSet.open(tmp_path / "set").example(0).params[:, 6].max() < 0.05


@pytest.mark.parametrize("offset", [1.25, -0.63])
def test_the_offset_is_kept(folder, tmp_path, offset):
    clicks(folder / "sounds" / "x.wav", TIMES + offset, 8.0)
    manifest = tmp_path / "sounds.toml"
    manifest.write_text(f'[[take]]\nfile = "a/one.bvh"\nsound = "sounds/x.wav"\noffset = {offset}\n')
    report = build(folder, tmp_path / "set", manifest=manifest)
    found = MotionSet.open(tmp_path / "set")
    (number,) = [n for n, clip in enumerate(found.clips) if clip.targets == "audio"]
    example = found.example(number)
    begins = max(-offset, 0.0)
    assert found.clips[number].seconds == pytest.approx(np.ceil(begins * 50.0 - 1e-6) / 50.0)
    expected = TIMES - found.clips[number].seconds
    expected = expected[expected > 0.0]
    assert np.abs(example.onsets / 50.0 - expected).max() <= 0.025
    # Only the movement from the beginning of the sound on is used, including its features.
    assert len(example) == 200 - round(np.ceil(begins * 50.0))
    line = next(line for line in report.warnings if line.startswith("a/one.bvh: sound of 8.00 s"))
    assert ("only the" in line) == (offset < 0)
    assert ("goes on after" in line) == (offset > 0)


def test_a_shorter_sound_leaves_only_the_overlap(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES[:4], 2.5)
    report = build(folder, tmp_path / "set")
    found = MotionSet.open(tmp_path / "set")
    assert [clip.frames for clip in found.clips] == [125, 200]
    line = "a/one.bvh: sound of 2.50 s, movement of 4.00 s: only the 2.50 s in common are used"
    assert line in report.warnings
    # The warnings are repeated when nothing is computed.
    assert line in build(folder, tmp_path / "set").warnings


def test_a_sound_with_next_to_nothing_in_common_is_an_error_of_that_take(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES[:1], 1.0)
    report = build(folder, tmp_path / "set")
    assert [line["path"] for line in report.refused] == ["a/one.bvh"]
    said = "sound of 1.00 s, movement of 4.00 s: 1.00 s in common; expected at least 1.60 s"
    assert report.refused[0]["reason"].endswith(said)
    # Longer than the shortest clip, but hardly shorter than the movement, which then has no warning.
    clicks(folder / "a" / "one.wav", TIMES[:1], 3.94)
    report = build(folder, tmp_path / "set", min_seconds=3.98)
    said = "sound of 3.94 s, movement of 4.00 s: 3.94 s in common; expected at least 3.98 s"
    assert report.refused[0]["reason"].endswith(said)
    (folder / "a" / "one.wav").write_bytes(b"no sound")
    report = build(folder, tmp_path / "set")
    assert report.refused[0]["reason"].startswith("a/one.wav: is not a sound that can be read")


def test_every_clip_of_a_cut_take_is_on_the_clock_of_the_sound(folder, tmp_path):
    from pyanticip import load_motion
    from pyanticip.motion.bvh import save_bvh

    whole = load_motion(folder / "a" / "one.bvh")
    root = np.array(whole.root)
    root[90:] += 5.0
    save_bvh(dataclasses.replace(whole, root=root), folder / "a" / "one.bvh")
    clicks(folder / "a" / "one.wav", TIMES + 0.25, 5.0)
    (tmp_path / "m.toml").write_text('[[take]]\nfile = "a/one.bvh"\noffset = 0.25\n')
    build(folder, tmp_path / "set", manifest=tmp_path / "m.toml")
    found = MotionSet.open(tmp_path / "set")
    clips = [(n, clip) for n, clip in enumerate(found.clips) if clip.targets == "audio"]
    assert [(clip.name, clip.frames, clip.seconds) for _, clip in clips] == [
        ("a/one/0", 90, 0.0), ("a/one/1", 109, 1.82),
    ]  # fmt: skip
    for number, clip in clips:
        heard = clip.seconds + found.example(number).onsets / 50.0
        inside = TIMES[(clip.seconds <= TIMES) & (clip.seconds + clip.frames / 50.0 > TIMES)]
        assert np.abs(heard - inside).max() <= 0.025


def test_another_sound_or_offset_is_another_set(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES, 4.0)
    first = build(folder, tmp_path / "set")
    assert build(folder, tmp_path / "set").kept == 2
    clicks(folder / "a" / "one.wav", TIMES[1:], 4.0)
    second = build(folder, tmp_path / "set")
    assert (second.made, second.kept) == (1, 1)
    (tmp_path / "m.csv").write_text("file,offset\na/one.bvh,0.2\n")
    third = build(folder, tmp_path / "set", manifest=tmp_path / "m.csv")
    assert (third.made, third.kept) == (1, 1)
    assert len({first.digest, second.digest, third.digest}) == 3


def test_shards_with_other_sounds_are_of_another_build(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES, 4.0)
    manifest, shards = tmp_path / "sounds.csv", (tmp_path / "1", tmp_path / "2")
    manifest.write_text("file,offset\na/one.bvh,0.5\n")
    for number, shard in enumerate(shards, start=1):
        build(folder, shard, shard=f"{number}/2", manifest=manifest)
    assert (
        merge(shards, tmp_path / "both").digest == build(folder, tmp_path / "one", manifest=manifest).digest
    )
    build(folder, shards[0], shard="1/2")  # the manifest was forgotten on one machine
    with pytest.raises(OptionError, match=r"2: is of another build than .*1: it saw other sounds or offsets"):
        merge(shards, tmp_path / "mixed")


def test_variations_keep_time_with_the_sound(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES, 4.0, channels=2)
    (tmp_path / "who.csv").write_text("subject,split\na,train\nb,validation\n")
    build(folder, tmp_path / "set", split_file=tmp_path / "who.csv")
    base = MotionSet.open(tmp_path / "set")
    made = augment(base, tmp_path / "more", copies=4, recipe=Recipe(movement="simple", mirror=1.0))
    for number in range(len(made)):
        np.testing.assert_array_equal(made.example(number).onsets, base.example(0).onsets)
        np.testing.assert_array_equal(made.example(number).params[:, :6], base.example(0).params[:, :6])
        np.testing.assert_allclose(
            made.example(number).params[:, 6], 1.0 - base.example(0).params[:, 6], atol=1e-6
        )
    assert {clip.targets for clip in made.clips} == {"audio"}


def test_manifests_say_what_is_wrong_with_them(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES, 4.0)
    found = discover(folder, tmp_path / "set")
    assert pair(folder, found) == {"a/one.bvh": Sound("a/one.wav")}

    def reading(text, name="m.toml"):
        (tmp_path / name).write_text(text)
        return pair(folder, found, tmp_path / name)

    assert reading('[[take]]\nfile = "a/one.bvh"\nsound = "none"') == {}
    assert reading('[[take]]\nfile = "a/one.bvh"\noffset = 2')["a/one.bvh"] == Sound("a/one.wav", 2)
    assert reading("file,sound,offset\na/one.bvh,,\nb/two.bvh,a/one.wav,-1.5\n", "m.csv") == {
        "a/one.bvh": Sound("a/one.wav"),
        "b/two.bvh": Sound("a/one.wav", -1.5),
    }
    for text, name, match in (
        ('[[take]]\nfile = "c.bvh"', "m.toml", r"take 1: file 'c\.bvh' is not a take"),
        ('[[take]]\nfile = "b/two.bvh"', "m.toml", "no sound is given, and there is none beside"),
        ('[[take]]\nfile = "b/two.bvh"\nsound = "x.wav"', "m.toml", r"there is no sound 'x\.wav'"),
        ('[[take]]\nfile = "a/one.bvh"\ndelay = 1', "m.toml", "no column or key 'delay'"),
        ('[[take]]\nsound = "a/one.wav"', "m.toml", "no file"),
        ('[[take]]\nfile = "a/one.bvh"\noffset = "1"', "m.toml", "offset: expected seconds"),
        ('[[take]]\nfile = "a/one.bvh"\noffset = nan', "m.toml", "offset: expected seconds"),
        ('[[take]]\nfile = "a/one.bvh"\nsound = 3', "m.toml", "sound: expected a path"),
        ("[take]", "m.toml", r"expected \[\[take\]\] tables"),
        ("x", "m.toml", "not valid TOML"),
        ("file,offset\na/one.bvh,later\n", "m.csv", "line 2: offset: expected seconds, got 'later'"),
        ("take,offset\na/one.bvh,1\n", "m.csv", "no column or key 'take'"),
        ("file,offset\na/one.bvh,1,5\n", "m.csv", "line 2: more cells than columns"),
        ("file,offset\na/one.bvh,1\n./a/one.bvh,2\n", "m.csv", "that line 2 names as well"),
    ):
        with pytest.raises(FormatError, match=match):
            reading(text, name)
    with pytest.raises(FormatError, match="no such file"):
        pair(folder, found, tmp_path / "none.toml")


def test_sounds_that_lie_there_for_nothing_are_told(folder, tmp_path):
    clicks(folder / "a" / "one.wav", TIMES, 4.0)
    clicks(folder / "a" / "one.flac", TIMES, 4.0)
    (folder / "b" / "two.mp3").touch()
    (folder / "b" / "notes.mp3").touch()
    found = discover(folder, tmp_path / "set")
    assert pair(folder, found) == {"a/one.bvh": Sound("a/one.flac")}
    assert found.warnings == [
        "b/two.mp3: lies beside a take but is neither WAV nor FLAC: the teacher provides the targets",
        "a/one.wav: another sound beside the same take is used",
    ]
    # An explicit manifest entry gives no warning.
    (tmp_path / "m.csv").write_text("file,sound\na/one.bvh,a/one.wav\nb/two.bvh,none\n")
    found = discover(folder, tmp_path / "set")
    assert pair(folder, found, tmp_path / "m.csv") == {"a/one.bvh": Sound("a/one.wav")}
    assert found.warnings == []


def test_names_with_accents_apart_are_those_that_are_typed(folder, tmp_path):
    apart = unicodedata.normalize("NFD", "Müller")
    for take in ("one.bvh", "two.bvh"):
        (folder / apart).mkdir(exist_ok=True)
        (folder / apart / take).touch()
    (folder / apart / "drum.wav").touch()
    found = discover(folder, tmp_path / "set")
    assert "Müller" in {source.subject for source in found.sources}
    (tmp_path / "m.csv").write_text("file,sound\nMüller/one.bvh,Müller/drum.wav\n", encoding="utf-8")
    assert pair(folder, found, tmp_path / "m.csv") == {f"{apart}/one.bvh": Sound(f"{apart}/drum.wav")}
    (tmp_path / "split.toml").write_text('train = ["*"]\ntest = ["Müller"]\n', encoding="utf-8")
    (tmp_path / "apart.csv").write_text(f"*,train\n{apart},test\n", encoding="utf-8")
    for name in ("split.toml", "apart.csv"):
        subjects = {source.subject: False for source in found.sources}
        assert sides_of(subjects, tmp_path / name)["Müller"] == "test"


def test_a_missing_library_is_said_at_once(folder, tmp_path, monkeypatch):
    clicks(folder / "a" / "one.wav", TIMES, 4.0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"needs librosa: pip install 'pyanticip\[train\]'"):
        build(folder, tmp_path / "set")
    monkeypatch.undo()
    with pytest.raises(OptionError, match="sound is auto, or none"):
        build(folder, tmp_path / "set", sound="none", manifest=tmp_path / "m.toml")
