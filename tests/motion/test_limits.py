"""Files made to be awkward: enormous lines, headers and counts are refused, quickly and in one line."""

import pytest
from support.motion_files import AMC, ASF, BVH_HEADER, bvh_text, write_amc, write_bvh

import pyanticip as pa
from pyanticip.errors import FormatError

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
