"""A recording of several suits: rehearsed and calibrated is whoever was heard then."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyanticip.memory.files import load_rehearsal
from pyanticip.motion.recording import RecordingWriter
from realtime.bench.performer import mocopi_datagrams
from realtime.programs.calibrate import calibrate_from
from realtime.programs.rehearse import rehearse
from realtime.rig import load_rig

SKELETON, FRAMES = mocopi_datagrams(900)
A, B = "10.0.0.1:7000", "10.0.0.2:5000"


@pytest.mark.parametrize(
    ("sender", "command", "expected"),
    [
        (None, None, {"both": ("a", 0)}),
        (B, None, {"both": ("b", 0)}),
        ("10.0.0.2", None, {"both": ("b", 0)}),
        (None, (0, "player", B), {"both": ("b", 0)}),
        (None, (5, "source", B), {"both 1": ("a", 0), "both 2": ("b", 250)}),
        (B, (5, "source", ""), {"both": ("b", 0)}),
        (B, (5, "source", A), {"both 1": ("b", 0), "both 2": ("a", 250)}),
    ],
)
def test_the_selected_suit_of_a_recording_is_rehearsed_and_calibrated(
    tmp_path: Path, sender: str | None, command: tuple[int, str, str] | None, expected: dict[str, Any]
) -> None:
    suits = {"a": (A, FRAMES[:450]), "b": (B, FRAMES[450:900])}

    def recorded(name: str, *playing: str, first: int = 0) -> Path:
        file = tmp_path / f"{name}.anticip"
        header = {"rig": {"source": {"from": sender}}} if name == "both" else {}
        with RecordingWriter(file, header) as tape:
            for each in playing:
                tape.raw(0, f"mocopi@{suits[each][0]}", SKELETON)
            for n in range(450):
                t_ns = (n + 1) * 20_000_000
                if name == "both" and command is not None and n == 50 * command[0]:
                    tape.control(t_ns, command[1], command[2:])
                for each in playing:
                    if n >= first:
                        tape.raw(t_ns + 1, f"mocopi@{suits[each][0]}", suits[each][1][n])
        return file

    both = recorded("both", "a", "b")
    rehearse([both], tmp_path / "both.memory")
    found = load_rehearsal(tmp_path / "both.memory").takes
    assert list(found) == list(expected)
    for name, (suit, first) in expected.items():
        alone = recorded("alone", suit, first=first)
        rehearse([alone], tmp_path / "alone.memory", force=True)
        (poses,) = load_rehearsal(tmp_path / "alone.memory").takes.values()
        count = len(found[name])
        assert count >= 150
        # The one who takes over was followed before: its gate has learned of it.
        np.testing.assert_allclose(found[name], poses[:count], atol=0.02)
        alone.unlink()
    if len(expected) == 1:
        ((suit, _),) = expected.values()
        rig = load_rig(None, {"source": {"from": "10.9.9.9"}, "model": {"backend": "rust"}})
        assert calibrate_from(both, rig) == calibrate_from(recorded("alone", suit), rig)
