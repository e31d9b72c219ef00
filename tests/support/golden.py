"""Golden values in ``tests/golden/NAME.json``.

``PYANTICIP_GOLDEN=write python -m pytest tests/golden`` rewrites them; a reviewer judges the difference.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "golden"
APART = 2e-3
"""Absolute and relative tolerance: processors round differently."""


def plain(found: Any) -> Any:
    """Values for JSON, with numbers of five digits."""
    if isinstance(found, dict):
        return {str(name): plain(value) for name, value in found.items()}
    if isinstance(found, list | tuple | np.ndarray):
        return [plain(value) for value in found]
    if isinstance(found, bool | np.bool_):
        return bool(found)
    if isinstance(found, int | np.integer):
        return int(found)
    return float(f"{found:.5g}") if isinstance(found, float | np.floating) else found


def differences(found: Any, kept: Any, where: str = "") -> list[str]:
    """The differences of two trees, by path."""
    if isinstance(found, float | int) and isinstance(kept, float | int):
        same = abs(found - kept) <= APART * (1.0 + abs(kept)) or found == kept
        return [] if same else [f"{where}: {kept} was, {found} is"]
    if isinstance(found, dict) and isinstance(kept, dict):
        names = list(dict.fromkeys((*kept, *found)))
        pairs = [(name, found.get(name), kept.get(name)) for name in names]
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        pairs = [(str(n), *pair) for n, pair in enumerate(zip(found, kept, strict=True))]
    else:
        return [] if found == kept else [f"{where}: {str(kept)[:60]} was, {str(found)[:60]} is"]
    return [line for name, one, other in pairs for line in differences(one, other, f"{where}/{name}")]


def hold(name: str, found: dict[str, Any]) -> None:
    """Compare values by case with the golden ones."""
    file = FOLDER / f"{name}.json"
    found = plain(found)
    if os.environ.get("PYANTICIP_GOLDEN") == "write":
        lines = ",\n".join(f" {json.dumps(case)}: {json.dumps(value)}" for case, value in found.items())
        file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    apart = differences(found, json.loads(file.read_text(encoding="utf-8")))
    assert not apart, f"{len(apart)} differ, of them: " + "; ".join(apart[:5])
