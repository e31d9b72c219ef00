"""The benchmark's evaluation: published figures, and invalid files."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from support.takes import random_takes

from pyanticip.errors import FormatError, OptionError
from training.report.pages import as_markdown
from training.tasks.forecast import bank, cmu, metrics
from training.tasks.forecast.evaluate import evaluate_forecast
from training.tasks.forecast.report import split_parts

KNOWN = {
    "walking_1": (
        (24.72, 47.71, 91.57, 111.81, 148.26, 213.79),
        (12.13, 25.08, 64.53, 89.54, 147.31, 338.48),
        (0.291, 0.525, 0.867, 1.016, 1.312, 1.800),
        (0.211, 0.431, 1.097, 1.513, 2.477, 5.014),
    ),
    "soccer_1": (
        (17.52, 33.15, 62.68, 76.40, 100.88, 148.83),
        (11.08, 23.26, 55.52, 75.32, 119.65, 255.20),
        (0.176, 0.335, 0.623, 0.734, 0.918, 1.197),
        (0.220, 0.438, 0.856, 1.066, 1.549, 2.449),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_known_figures_come_out_to_the_last_digit(data_dir, name):
    action = name.rpartition("_")[0]
    take = cmu.load_take(data_dir / "cmu-bench" / "train" / action / f"{name}.txt", action)
    found = (
        metrics.error_curve(take, metrics.hold)[list(cmu.HORIZONS)],
        metrics.error_curve(take, metrics.extrapolate)[list(cmu.HORIZONS)],
        metrics.angle_error(take, metrics.hold),
        metrics.angle_error(take, metrics.extrapolate_maps),
    )
    for values, known, digits in zip(found, KNOWN[name], (2, 2, 3, 3), strict=True):
        assert np.abs(values - known).max() <= 0.51 * 10.0**-digits


def test_every_second_row_is_kept_and_the_first_is_one_of_them(tmp_path):
    random_takes(tmp_path, rows=11)
    path = tmp_path / "test" / "walking" / "walking_1.txt"
    take = cmu.load_take(path, "walking")
    assert np.array_equal(take.rows, np.loadtxt(path, delimiter=",")[::2])
    assert take.maps.shape == (6, 38, 3)


@given(st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3))
def test_rotations_are_those_of_row_vectors(vector):
    ours = cmu.rotations(np.array(vector))
    assert np.allclose(ours, Rotation.from_rotvec(vector).as_matrix(), atol=1e-12)
    assert np.allclose(cmu.rotations(metrics.logarithm(ours)), ours, atol=1e-9)


def test_bones_keep_their_lengths_and_the_root_does_not_matter():
    draw = np.random.default_rng(1)
    maps = draw.standard_normal((4, 38, 3))
    place = cmu.positions(maps)
    for joint in range(1, 38):
        bone = place[:, joint] - place[:, cmu.PARENTS[joint]] if cmu.PARENTS[joint] else place[:, joint]
        assert np.allclose(np.linalg.norm(bone, axis=-1), np.linalg.norm(cmu.OFFSETS[joint]))
    turned = maps.copy()
    turned[:, 0] = draw.standard_normal((4, 3))
    assert np.array_equal(cmu.positions(turned), place)


def test_joints_that_coincide_do_so_and_25_are_predicted():
    place = cmu.positions(np.random.default_rng(2).standard_normal((3, 38, 3)))
    for joint, source in cmu.COPIED.items():
        assert np.allclose(place[:, joint], place[:, source])
    assert len(cmu.PREDICTED) == 25


def test_windows_are_the_published_ones():
    assert len(cmu.all_windows(100)) == 66
    assert cmu.all_windows(100)[-1] == 65
    assert len(cmu.all_windows(34)) == 0
    starts = cmu.sampled_windows(361)
    assert len(starts) == 8
    assert starts.max() < 361 - 75
    assert np.array_equal(starts, cmu.sampled_windows(361))
    assert len(cmu.sampled_windows(75)) == 0


def test_a_perfect_prediction_has_no_error_and_locked_angles_no_third(tmp_path):
    random_takes(tmp_path)
    take = cmu.load_take(tmp_path / "test" / "walking" / "walking_1.txt", "walking")
    place = cmu.positions(take.maps)
    windows = place[cmu.all_windows(len(place))[:, None] + np.arange(35)]
    assert not metrics.error_curve(take, lambda observed: windows[:, 10:]).any()
    locked = Rotation.from_euler("y", 90, degrees=True).as_rotvec()
    assert (
        metrics.euler(locked)[2] == pytest.approx(0.0, abs=1e-6) or np.isfinite(metrics.euler(locked)).all()
    )
    with pytest.raises(ValueError, match="expected predictions"):
        metrics.error_curve(take, lambda observed: observed)


def test_the_average_leaves_out_the_action_without_a_test_file(tmp_path):
    random_takes(tmp_path, actions=("walking", "soccer", "basketball_signal"))
    report = evaluate_forecast(tmp_path)
    rows = report["mpjpe"]["zero velocity"]
    assert rows["average"] == pytest.approx(np.mean([rows["walking"], rows["soccer"]], axis=0), abs=1e-3)
    assert report["ratio"]["zero velocity"] == [1.0] * 6
    assert "test/running/running_1.txt" in report["missing"]
    text = as_markdown(split_parts(report, pictures=False))
    assert "PGBIG (Ma 2022), published |" in text
    assert "| 0.424 | 0.434 | 0.450 | 0.498 |" in text


def test_the_action_without_a_test_file_is_averaged_where_there_is_no_other(tmp_path):
    random_takes(tmp_path, actions=("basketball_signal",))
    report = evaluate_forecast(tmp_path)
    for name in ("mpjpe", "angle"):
        rows = report[name]["constant velocity"]
        assert rows["average"] == rows["basketball_signal"]
    assert "| constant velocity |" in as_markdown(split_parts(report, pictures=False))


def test_files_that_are_too_short_for_a_window_do_not_count(tmp_path):
    random_takes(tmp_path, actions=("walking", "soccer"))
    whole = evaluate_forecast(tmp_path)
    assert whole["too_short"] == []
    file = tmp_path / "test" / "soccer" / "soccer_1.txt"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:69]))  # one window of positions, none of angles
    report = evaluate_forecast(tmp_path)
    assert report["angle"]["zero velocity"]["average"] == whole["angle"]["zero velocity"]["walking"]
    assert report["mpjpe"]["zero velocity"].keys() == {"walking", "soccer", "average"}
    file.write_text("".join(lines[:68]))
    report = evaluate_forecast(tmp_path)
    assert (report["files"], report["too_short"]) == (1, ["soccer_1"])
    json.dumps(report, allow_nan=False)
    assert "not counted: soccer_1." in as_markdown(split_parts(report, pictures=False))
    walking = tmp_path / "test" / "walking" / "walking_1.txt"
    walking.write_text("".join(lines[:69]))
    report = evaluate_forecast(tmp_path)
    assert report["angle"] == {}
    assert "nan" not in as_markdown(split_parts(report, pictures=False))
    walking.write_text("".join(lines[:68]))
    with pytest.raises(FormatError, match="no file has the 69 rows that a window needs"):
        evaluate_forecast(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1,2,3\n", "line 1: expected 117 numbers, found 3"),
        (",".join(["x"] * 117), "line 1: expected numbers"),
        (",".join(["nan"] * 117), "row 1: expected finite"),
        ("é", "line 1: expected 117 numbers, found 1"),
    ],
)
def test_broken_files_are_one_clear_error(tmp_path, content, words):
    random_takes(tmp_path)
    (tmp_path / "test" / "walking" / "walking_1.txt").write_text(content, encoding="utf-8")
    with pytest.raises(FormatError, match=words):
        evaluate_forecast(tmp_path)


def test_nothing_there_and_another_split(tmp_path):
    with pytest.raises(FormatError, match="found none"):
        evaluate_forecast(tmp_path)
    with pytest.raises(OptionError, match="split must be"):
        evaluate_forecast(tmp_path, split="dev")


def test_the_joints_weigh_what_the_metric_counts():
    weights = bank.joint_weights()
    draw = np.random.default_rng(0)
    truth = cmu.positions(0.3 * draw.standard_normal((7, 38, 3)))
    guess = metrics.completed(truth + draw.standard_normal(truth.shape), truth)
    apart = np.linalg.norm(guess - truth, axis=-1)
    assert np.allclose(apart.mean(-1), apart[:, list(cmu.PREDICTED)] @ weights.numpy(), rtol=1e-5)


def test_the_mirror_image_of_a_pose_is_that_of_its_angles():
    other = np.arange(38)
    for left, right in zip(cmu.LEFT, cmu.RIGHT, strict=True):
        other[left], other[right] = right, left
    maps = 0.5 * np.random.default_rng(3).standard_normal((20, 38, 3))
    there = cmu.positions(maps[:, other] * [1.0, -1.0, -1.0])[:, list(cmu.PREDICTED)]
    here = bank.mirrored(torch.from_numpy(cmu.positions(maps)[:, list(cmu.PREDICTED)]))
    # The bones of the two sides differ slightly.
    assert np.abs(here.numpy() - there).max() < 0.04 * np.abs(there).max()
