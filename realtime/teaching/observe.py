"""What heads see of a take: the model steps over it as it would live, and its hidden state is written
down."""

from __future__ import annotations

import contextlib
import hashlib
import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.motion.atomic import write_atomic
from pyanticip.teach.inputs import body
from pyanticip.teach.project import CACHE, Project
from pyanticip.teach.state import TakeEntry
from pyanticip.untrusted import open_file
from realtime.step.open import ModelBackend

__all__ = ["ModelBackend", "Observer", "observe"]

F32 = npt.NDArray[np.float32]


def observe(rows: F32, backend: ModelBackend | None) -> dict[str, F32]:
    """The input blocks (T, width) of feature rows (T, 231 or 279), stepped from the start of a stream."""
    blocks = {"body": body(rows)}
    if backend is not None and backend.hidden:
        backend.reset()
        hidden = np.zeros((len(rows), backend.hidden), np.float32)
        for t in range(len(rows)):
            state = backend.step(rows[t : t + 1]).hidden
            assert state is not None
            hidden[t] = state
        blocks["hidden"] = hidden
    return blocks


class Observer:
    """Observes a project's takes on one model, each once: what it finds is kept in the project's cache."""

    def __init__(self, project: Project, backend: ModelBackend | None) -> None:
        self._project = project
        self._backend = backend
        self.stepped = 0

    def blocks(self, take: TakeEntry) -> dict[str, F32]:
        """The input blocks (total, width) of a take."""
        clip = self._project.motion(take)
        rows = clip.features()
        backend = self._backend
        if backend is None or not backend.hidden:
            return observe(rows, None)
        path = self._cached(take, rows, backend)
        hidden = _read(path, (len(rows), backend.hidden))
        if hidden is not None:
            return {"body": body(rows), "hidden": hidden}
        self.stepped += len(rows)
        blocks = observe(rows, backend)
        buffer = io.BytesIO()
        np.save(buffer, blocks["hidden"], allow_pickle=False)
        # A cache that cannot be written costs time and nothing else.
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, buffer.getvalue())
        return blocks

    def _cached(self, take: TakeEntry, rows: F32, backend: ModelBackend) -> Path:
        """A name that says all that the content depends on."""
        of = hashlib.sha256(rows[:, : backend.manifest.config.columns].tobytes())
        of.update(f"{backend.manifest.sha256[WEIGHTS]} {backend.hidden}".encode())
        return self._project.folder / CACHE / f"{take.motion[:12]}-{of.hexdigest()[:20]}.npy"


def _read(path: Path, shape: tuple[int, int]) -> F32 | None:
    """What the cache holds; None where it holds nothing usable."""
    try:
        with open_file(path) as file:
            found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(found, np.ndarray) or found.shape != shape or found.dtype != np.float32:
        return None
    return found if bool(np.isfinite(found).all()) else None
