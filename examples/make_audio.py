"""Write a short example of each preset to docs/audio: six seconds of the bundled dance.

    python examples/make_audio.py          # needs oggenc (Debian: vorbis-tools)

The preset granular needs a folder of sounds, and has no example.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pyanticip._core import PRESETS
from realtime.programs.demo import DANCE
from realtime.programs.render import render
from realtime.rig import Rig
from realtime.voice.base import SAMPLED

AUDIO = Path(__file__).resolve().parents[1] / "docs" / "audio"
SECONDS = 6.0


def main() -> None:
    if shutil.which("oggenc") is None:
        sys.exit("make_audio: no oggenc here (Debian: vorbis-tools)")
    AUDIO.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder, "sound.wav")
        for preset in sorted(set(PRESETS) - {SAMPLED}):
            rig = Rig.model_validate({"synth": {"preset": preset}})
            render(DANCE, wav, rig=rig, seconds=SECONDS)
            # A fixed serial number makes the file reproducible.
            options = ["--serial", "1", "-q", "-1", "--title", f"pyanticip, preset {preset}"]
            options += ["--comment", "dance=Jasmine Coro (G1 Moves, CC BY 4.0)"]
            subprocess.run(["oggenc", "-Q", *options, "-o", AUDIO / f"{preset}.ogg", wav], check=True)


if __name__ == "__main__":
    main()
