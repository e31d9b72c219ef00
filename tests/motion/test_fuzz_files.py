"""No bytes make a reader fail in any way but its one-line error."""

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.motion_files import AMC, ASF, bvh_text, write_amc

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
RECORDED = b"ANTICIP\0\1\0\0\0"

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
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=edits)
def test_damaged_files(tmp_path, name, changes):
    write_amc(tmp_path)
    check(lambda: parse_motion(tmp_path / name, mutate(SEEDS[name], changes)))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=edits)
def test_damaged_skeletons(tmp_path, changes):
    path = write_amc(tmp_path)
    (tmp_path / "07.asf").write_bytes(mutate(ASF.encode(), changes))
    check(lambda: pa.load_motion(path))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
