"""The words of the program: what they are, and that they stand in one place."""

import re
from pathlib import Path

import pyanticip
from pyanticip import _core, vocabulary
from pyanticip.bridge import AnticipationPacket

ROOT = Path(pyanticip.__file__).parents[1]


def test_names_that_receivers_rely_on():
    assert vocabulary.PARAMETERS == (
        "pitch", "loudness", "brightness", "roughness", "density", "space", "pan", "pulse",
    )  # fmt: skip
    assert vocabulary.EVENTS == ("onset", "phrase")
    assert vocabulary.RATE == 50.0
    assert vocabulary.HORIZONS_MS == (0, 40, 100, 200, 400)
    assert pyanticip.SCALARS is vocabulary.SCALARS


def test_the_scalars_columns_are_theirs():
    first, last = vocabulary.SCALAR_COLUMNS
    assert [f"scalar.{name}" for name in vocabulary.SCALARS] == list(_core.FEATURE_NAMES[first:last])
    assert len(_core.FEATURE_NAMES) == vocabulary.FEATURES


def test_the_columns_of_version_2_are_the_twins_parameters():
    blocks = ("0ms", "20ms", "60ms", "160ms", "mean_1s", "mean_4s")
    twins = [f"twin.{name}.{block}" for block in blocks for name in vocabulary.PARAMETERS]
    assert list(_core.FEATURE_NAMES[vocabulary.FEATURES_V1 :]) == twins
    assert vocabulary.FEATURE_WIDTHS == (231, 279)


def test_a_packet_has_the_scalars_in_their_order():
    assert tuple(AnticipationPacket.__dataclass_fields__) == (*vocabulary.SCALARS, "index")


def test_nobody_says_them_again():
    lists = (vocabulary.SCALARS, vocabulary.PARAMETERS, vocabulary.EVENTS, vocabulary.CANONICAL_JOINTS)
    again = [r"[\s,]*".join(f"[\"']{name}[\"']" for name in names) for names in lists]
    again += [r"\b_?(RATE|FPS)\b[^=\n]*= *50\b", r"[(\[]0, 40, 100, 200, 400[)\]]"]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]!r}"
        for package in ("pyanticip", "realtime", "training")
        for path in sorted((ROOT / package).rglob("*.py"))
        for pattern in again
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"))
        if path.name != "vocabulary.py"
    ]
    assert not found
