"""Description of the machine, which every bench adds to its figures; percentiles."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyanticip.system import cores

if TYPE_CHECKING:
    from rich.table import Table

Values = Sequence[float] | npt.NDArray[np.float64]


def machine() -> dict[str, Any]:
    """CPU, usable cores, commit (None outside a checkout) and versions."""
    return {
        "cpu": _cpu(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=10"],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def percentiles(values: Values, points: Sequence[float], scale: float = 1.0) -> dict[str, float]:
    """``{"p50": ..., "p99": ...}`` of the values times ``scale``; empty where there are no values."""
    if not len(values):
        return {}
    array = np.asarray(values, dtype=np.float64) * scale
    return {f"p{point:g}": round(float(np.percentile(array, point)), 3) for point in points}


def rich_table(title: str, columns: Sequence[str], words: Sequence[str] = ()) -> Table:
    """An empty table whose columns are for numbers, except for those in ``words``."""
    from rich.table import Column, Table

    return Table(*(Column(c, justify="left" if c in words else "right") for c in columns), title=title)
