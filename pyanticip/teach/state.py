"""The state of a project at one revision, outputs and takes, and its JSON manifest.

A :class:`State` is immutable; every operation makes a new one. Manifests are validated here: a damaged or
foreign one raises one :class:`FormatError`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unicodedata import category

from pyanticip.errors import FormatError, MotionError, OptionError
from pyanticip.teach.labels import GESTURE, NONE, check_labels
from pyanticip.teach.outputs import MAX_OUTPUTS, Output, unique_names
from pyanticip.untrusted import parse_json, read_file
from pyanticip.vocabulary import CANONICAL_JOINTS

FORMAT, VERSION = "anticip-teach", 3
MAX_TAKES = 2000
MAX_TAKE_FRAMES = 90_000
"""Most frames of one take: 30 minutes at 50 Hz."""

_MAX_MANIFEST_BYTES = 16 << 20
_SHA = re.compile(r"[0-9a-f]{64}")
_MASK = re.compile(rf"[01]{{{len(CANONICAL_JOINTS)}}}")


def check_take_name(name: object) -> str:
    """``name``, after a check that it is also safe as a file name.

    Raises:
        OptionError: it is not.
    """
    if not isinstance(name, str) or not _is_take_name(name):
        raise OptionError(
            f"take name: expected letters, digits, blanks, _ . + - (64 at most), got {str(name)[:80]!r}"
        )
    return name


def _is_take_name(name: str) -> bool:
    """Whether it has only letters and digits of any script, their combining marks, and `` _.+-``."""
    allowed = all(char.isalnum() or char in " _.+-" or category(char)[0] == "M" for char in name)
    return allowed and 1 <= len(name) <= 64 and name[0].isalnum() and name == name.strip()


@dataclass(frozen=True, slots=True)
class TakeEntry:
    """One demonstration.

    ``motion`` and ``curve`` are SHA-256 of files in ``takes`` and ``curves``. Of the motion's ``total``
    frames at 50 Hz the first ``begin`` lead in: the model sees them, but they are not trained on. ``values``
    are constants, ``columns`` map outputs to columns of the curve file; both are in the outputs' own units.
    ``labels`` map classes to the label that the take shows. ``mask`` has a 1 for each of the 22 joints that
    the source had, else a 0.
    """

    name: str
    motion: str
    total: int
    begin: int
    mask: str
    source: str = ""
    added: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    curve: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_take_name(self.name)
        are_ints = all(isinstance(n, int) and not isinstance(n, bool) for n in (self.total, self.begin))
        if not are_ints or not 0 <= self.begin < self.total <= MAX_TAKE_FRAMES:
            raise OptionError(f"take {self.name}: {self.begin} of {self.total} frames makes no sense")
        hashes = [self.motion, *([self.curve] if self.curve is not None else [])]
        if not all(isinstance(h, str) and _SHA.fullmatch(h) for h in hashes):
            raise OptionError(f"take {self.name}: a file's hash is invalid")
        if not isinstance(self.mask, str) or not _MASK.fullmatch(self.mask):
            raise OptionError(f"take {self.name}: the joint mask is invalid")
        if not isinstance(self.values, dict) or not isinstance(self.columns, dict):
            raise OptionError(f"take {self.name}: values and columns must be tables")
        for name, value in self.values.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise OptionError(f"take {self.name}: {name} must be a finite number, got {value!r}")
        if not all(isinstance(key, str) for key in self.columns.values()):
            raise OptionError(f"take {self.name}: the curve's columns are invalid")
        if self.columns and self.curve is None:
            raise OptionError(f"take {self.name}: columns without a curve")
        if set(self.values) & set(self.columns):
            raise OptionError(f"take {self.name}: an output has a value and a curve")
        check_labels(self.labels)

    @property
    def frames(self) -> int:
        """Number of frames after the lead-in."""
        return self.total - self.begin

    @property
    def gesture(self) -> str | None:
        """The gesture that it shows; None: none."""
        name = self.labels.get(GESTURE, NONE)
        return None if name == NONE else name

    @property
    def taught(self) -> set[str]:
        """Names of the outputs it demonstrates."""
        return {*self.values, *self.columns}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class State:
    """A project at one revision.

    ``parent`` is the revision that an undo restores (-1: none); ``description`` is the operation that made
    this revision, ``timestamp`` its time (ISO 8601, UTC).
    """

    revision: int
    parent: int
    description: str
    timestamp: str
    outputs: tuple[Output, ...] = ()
    takes: tuple[TakeEntry, ...] = ()

    def __post_init__(self) -> None:
        if not -1 <= self.parent < self.revision:
            raise OptionError(f"revision {self.revision} cannot follow {self.parent}")
        unique_names(self.outputs)
        if len(self.gestures) > MAX_OUTPUTS:
            raise OptionError(f"at most {MAX_OUTPUTS} gestures, got {len(self.gestures)}")
        names = [take.name for take in self.takes]
        if len(names) > MAX_TAKES:
            raise OptionError(f"at most {MAX_TAKES} takes, got {len(names)}")
        duplicate = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if duplicate is not None:
            raise OptionError(f"take {duplicate!r} appears twice")
        output_names = {output.name for output in self.outputs}
        for take in self.takes:
            if take.taught - output_names:
                raise OptionError(
                    f"take {take.name} teaches {min(take.taught - output_names)!r}, which is not an output"
                )
        ambiguous = output_names & self.classes.keys()
        if ambiguous:
            raise OptionError(f"class {min(ambiguous)}: an output has that name; choose another")
        # The probability of each label, and of none, is sent like an output.
        count = len(self.outputs) + sum(len({*labels, NONE}) for labels in self.classes.values())
        if self.classes and count > MAX_OUTPUTS:
            raise OptionError(f"at most {MAX_OUTPUTS} outputs and labels together, got {count}")

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """The classes that takes show, by name, each with its labels sorted."""
        label_sets: dict[str, set[str]] = {}
        for take in self.takes:
            for name, label in take.labels.items():
                label_sets.setdefault(name, set()).add(label)
        return {name: tuple(sorted(labels)) for name, labels in sorted(label_sets.items()) if name != GESTURE}

    @property
    def gestures(self) -> tuple[str, ...]:
        """The names of the gestures that takes show, sorted."""
        return tuple(sorted({name for take in self.takes if (name := take.gesture) is not None}))

    def take(self, name: str) -> TakeEntry:
        """The take of that name.

        Raises:
            OptionError: there is none.
        """
        match = next((take for take in self.takes if take.name == name), None)
        if match is None:
            names = ", ".join(take.name for take in self.takes) or "none yet"
            raise OptionError(f"no take {name!r}; there are {names}")
        return match

    def to_json(self) -> bytes:
        """The manifest's bytes."""
        tree = {
            "format": FORMAT,
            "version": VERSION,
            "revision": self.revision,
            "parent": self.parent,
            "did": self.description,
            "at": self.timestamp,
            "outputs": [output.to_dict() for output in self.outputs],
            "takes": [take.to_dict() for take in self.takes],
        }
        return (json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_state(path: Path) -> State:
    """The state in a manifest file.

    Raises:
        FormatError: the file is missing, no manifest, of a newer version, or damaged.
    """
    data = parse_json(read_file(path, _MAX_MANIFEST_BYTES, what="a project's manifest"), f"{path}:")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FormatError(f"{path}: is not the manifest of a teaching project")
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{path}: version must be a whole number from 1, got {version!r}")
    if version > VERSION:
        raise FormatError(f"{path}: version {version} is newer than this program's {VERSION}: update it")
    try:
        if not all(isinstance(data[key], int) for key in ("revision", "parent")):
            raise FormatError(f"{path}: revision must be a whole number")
        return State(
            revision=data["revision"],
            parent=data["parent"],
            description=str(data["did"]),
            timestamp=str(data["at"]),
            outputs=tuple(Output.from_dict(o) for o in data["outputs"]),
            takes=tuple(TakeEntry(**take) for take in data["takes"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: lacks a valid {error}") from None
    except FormatError:
        raise
    except MotionError as error:
        raise FormatError(f"{path}: {error}") from None
