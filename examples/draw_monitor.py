"""Take the screenshots of docs/monitor.md: the monitor's page of a show with the bundled performance.

    python examples/draw_monitor.py           # needs Chromium, and pip install 'pyanticip[monitor]'

rehearses realtime/data/performance.bvh, sends it like a mocopi to `pyanticip live --monitor`,
and writes docs/img/monitor.png (a laptop, light) and docs/img/monitor_phone.png (a phone, dark).
"""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from realtime.programs.demo import PERFORMANCE
from realtime.sockets import free_port

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "img"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def main() -> None:
    if BROWSER is None:
        sys.exit("draw_monitor: no Chromium here")
    suit, control = free_port(), free_port()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        page = f"127.0.0.1:{sock.getsockname()[1]}"
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as synth,
    ):
        synth.bind(("127.0.0.1", 9000))  # so that the picture shows a receiver that is there
        (Path(folder) / "rig.toml").write_text(f"[control]\nport = {control}\n")
        pyanticip = [sys.executable, "-m", "pyanticip"]
        memory = f"{folder}/piece.memory"
        subprocess.run([*pyanticip, "rehearse", str(PERFORMANCE), "--out", memory], check=True)
        source = f"mocopi://127.0.0.1:{suit}"
        live = subprocess.Popen(
            [
                *pyanticip, "live", "--rig", f"{folder}/rig.toml", "--source", source, "--memory", memory,
                "--monitor", page,
            ]
        )  # fmt: skip
        time.sleep(4)
        send = subprocess.Popen(
            [*pyanticip, "send", str(PERFORMANCE), "--as", "mocopi", "--to", f"127.0.0.1:{suit}", "--loop"]
        )
        # The performance's beats begin after 9 s.
        time.sleep(11)
        for name, size, dark_options in (
            ("monitor", "1440,1280", []),
            ("monitor_phone", "500,1300", ["--force-dark-mode"]),
        ):
            subprocess.run(
                [
                    BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                    "--hide-scrollbars", *dark_options,
                    *(["--blink-settings=preferredColorScheme=0"] if dark_options else []),
                    f"--user-data-dir={folder}/{name}", f"--window-size={size}",
                    "--virtual-time-budget=8000", f"--screenshot={IMAGES / name}.png", f"http://{page}/",
                ],
                check=True,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        for process in (send, live):
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
