"""Damaged and awkward files: read or refused quickly, in one line."""

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.motion_files import AMC, ASF, BVH_HEADER, bvh_text, write_amc, write_bvh

import pyanticip as pa
from pyanticip.errors import FormatError
from pyanticip.motion.load import parse_motion


def npz_bytes():
    buffer = io.BytesIO()
    rng = np.random.default_rng(3)
    np.savez(
        buffer, poses=rng.normal(size=(4, 66)), trans=rng.normal(size=(4, 3)), mocap_framerate=np.array(60.0)
    )
    return buffer.getvalue()


SEEDS = {"clip.bvh": bvh_text().encode(), "07_01.amc": AMC.encode(), "clip.npz": npz_bytes()}
WORDS = [
    *(b"nan", b"1e999", b"-", b"{", b"}", b"\n", b"ROOT x", b"JOINT", b"End Site", b"CHANNELS 3", b"\0"),
    *(b":hierarchy", b"begin", b"end", b"dof rx", b"\xff\xfe", b"1", b"root", b"MOTION", b"Frames: 3"),
    *(b"9" * 30, b"\r"),
]

# The header of a recording: magic and version 1.0.

edits = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(["cut", "drop", "insert", "flip", "repeat"]),
        st.one_of(st.sampled_from(WORDS), st.binary(max_size=6)),
        st.integers(1, 60),
    ),
    min_size=1,
    max_size=6,
)


def mutate(data, changes):
    for place, kind, content, length in changes:
        at = int(place * len(data))
        if kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[at + length :]
        elif kind == "insert":
            data = data[:at] + content + data[at:]
        elif kind == "flip":
            data = data[:at] + bytes(b ^ (length & 255) for b in data[at : at + 1]) + data[at + 1 :]
        else:
            data = data[: at + length] + data[at:]
    return data


def check(read):
    """``read()`` gives a sound clip or a FormatError of one line."""
    message = "-"
    try:
        clip = read()
    except FormatError as error:
        message = str(error)
    else:
        assert np.isfinite(clip.positions()).all()
    assert message
    assert "\n" not in message


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=edits)
def test_damaged_files(tmp_path, name, changes):
    write_amc(tmp_path)
    check(lambda: parse_motion(tmp_path / name, mutate(SEEDS[name], changes)))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=edits)
def test_damaged_skeletons(tmp_path, changes):
    path = write_amc(tmp_path)
    (tmp_path / "07.asf").write_bytes(mutate(ASF.encode(), changes))
    check(lambda: pa.load_motion(path))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from(
        [b"", b"HIERARCHY\n", b"PK\x03\x04", b":FULLY-SPECIFIED\n1\n", b"#!OML", b"ANTICIP\0"]
    ),
    data=st.binary(max_size=300),
)
def test_arbitrary_bytes(tmp_path, start, data):
    write_amc(tmp_path)
    path = tmp_path / "07_01.any"
    path.write_bytes(start + data)
    check(lambda: pa.load_motion(path))


MB = 1024 * 1024


def refused(path, reason, **options):
    with pytest.raises(FormatError, match=reason) as caught:
        pa.load_motion(path, **options)
    message = str(caught.value).removeprefix(str(path))
    assert "\n" not in message
    assert len(message) < 200


def test_a_hierarchy_without_end(tmp_path):
    refused(write_bvh(tmp_path, "HIERARCHY\n" + "}\n" * (3 * MB)), "has no MOTION in its first 4 MB")
    refused(write_bvh(tmp_path, "HIERARCHY " + "{" * (3 * MB)), "a line of more than 10000 characters")


@pytest.mark.parametrize("count", ["9" * (6 * MB), " " * (6 * MB), "1" + ":" * (6 * MB)])
def test_a_count_without_end(tmp_path, count):
    # Quadratic matching of such a line would take hours.
    refused(write_bvh(tmp_path, f"{BVH_HEADER}MOTION\nFrames: {count}"), "Frame Time|number of frames")


def test_a_frame_without_end(tmp_path):
    refused(write_bvh(tmp_path, bvh_text() + "1 " * (3 * MB)), r":44: a line of more than 1 MB")
    refused(write_amc(tmp_path, AMC + "lfemur" + " 1" * (3 * MB)), r"amc:\d+: ")
    refused(write_amc(tmp_path, "1\n" + "lfemur 1 2 3\n" * 500_000), "'lfemur' comes twice")


def test_frames_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("pyanticip.motion.text.MAX_FRAMES", 1000)
    refused(write_amc(tmp_path, "".join(f"{n}\n" for n in range(2000))), "has more than 1000 frames")
    rows = bvh_text().split("Frame Time: 0.02\n")
    refused(write_bvh(tmp_path, rows[0] + "Frame Time: 0.02\n" + rows[1] * 200), "has more than 1000 frames")


def test_a_skeleton_without_end(tmp_path):
    refused_asf = ASF + "# \n" * (2 * MB)
    with pytest.raises(FormatError, match="is larger than 4 MB"):
        pa.load_motion(write_amc(tmp_path, asf=refused_asf))
    bones = "".join(
        f"begin\nname b{n}\ndirection 0 1 0\nlength 1\naxis 0 0 0 XYZ\nend\n" for n in range(1100)
    )
    with pytest.raises(FormatError, match="more than 1024 joints"):
        pa.load_motion(write_amc(tmp_path, asf=f":root\n:bonedata\n{bones}:hierarchy\n"))
