"""Records what programs play to JACK until its standard input ends: ``... SERVER OUT.npz PORT...``.

It is a separate process, so that JACK's thread never waits for Python's global lock.
"""

import gc
import sys
import time

import jack
import numpy as np


def main(server: str, out: str, *names: str) -> None:
    client = jack.Client("recorder", servername=server, no_start_server=True)
    ports = [client.inports.register(name) for name in names]
    blocks: list[tuple[float, int, np.ndarray]] = []

    @client.set_process_callback
    def process(frames: int) -> None:
        block = np.stack([port.get_array() for port in ports])  # a copy
        blocks.append((time.time(), client.last_frame_time, block))

    gc.disable()
    with client:
        sys.stdin.read()
    first = blocks[0][1]
    sound = np.zeros((len(ports), blocks[-1][1] - first + blocks[-1][2].shape[1]), np.float32)
    there = np.zeros(sound.shape[1], np.bool_)  # False where a busy machine lost samples
    for _, at, block in blocks:
        where = slice(at - first, at - first + block.shape[1])
        sound[:, where], there[where] = block, True
    times, frames = np.array([(now, at - first) for now, at, _ in blocks]).T
    np.savez(out, sound=sound, there=there, times=times, frames=frames)


if __name__ == "__main__":
    main(*sys.argv[1:])
