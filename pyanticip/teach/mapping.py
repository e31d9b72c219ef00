"""Mappings: fitted heads in one file that the live path plays. Read as untrusted input, without pickle.

The file is safetensors: the arrays of the heads, and in its metadata a JSON text with everything else
(outputs, inputs, the checkpoint and the joints it was taught with, its evaluation). Sizes are checked before
anything is parsed, shapes before anything is computed, and a SHA-256 of the arrays detects damage.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from pyanticip._core import FEATURES_VERSION, GESTURE_FRAMES
from pyanticip.errors import CheckpointError, FormatError, MotionError
from pyanticip.teach import heads
from pyanticip.teach.classes import familiarity
from pyanticip.teach.classifiers import compile_classifier
from pyanticip.teach.frames import BODY, Part
from pyanticip.teach.gestures import Gesture, make_spotter
from pyanticip.teach.labels import GESTURE, NONE, check_labels
from pyanticip.teach.options import BEYOND, FitOptions, check_blocks
from pyanticip.teach.outputs import Output, unique_names
from pyanticip.untrusted import read_file, safetensors_header
from pyanticip.vocabulary import CANONICAL_JOINTS

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

FORMAT, VERSION = "anticip-mapping", 3
MAX_BYTES, _MAX_HEADER_BYTES = 64 << 20, 8 << 20
_MAX_PARTS = 64
_NO_NOVELTY = np.zeros(1)
# Shapes of arrays by name, a letter per axis; within a head equal letters are equal sizes.
_HEAD_SHAPES: dict[str, tuple[tuple[str, str], ...]] = {
    "ridge": (("slope", "kn"), ("level", "n")),
    "knn": (("places", "pq"), ("squares", "p"), ("values", "pn"), ("neighbours", "1")),
    "mlp": (("enter", "kh"), ("enter_bias", "h"), ("leave", "hn"), ("leave_bias", "n")),
}
_CALIBRATION_SHAPES = (("sharpness", "1"), ("unlike", "2"))
_CLASS_SHAPES: dict[str, tuple[tuple[str, str], ...]] = {
    "logit": (*_HEAD_SHAPES["ridge"], *_CALIBRATION_SHAPES),
    "vote": (*_HEAD_SHAPES["knn"], *_CALIBRATION_SHAPES),
}
_SHAPES = (("mean", "f"), ("basis", "fk"), ("near_places", "cr"), ("near_scale", "r"), ("near_level", "1"))


def pack_mapping(
    parts: Sequence[Part],
    outputs: Sequence[Output],
    options: FitOptions,
    *,
    mask: Sequence[bool],
    model: Table[str, str] | None,
    origin: Table[str, Any],
    gestures: Sequence[Gesture] = (),
) -> bytes:
    """The bytes of a mapping file.

    Args:
        mask: joints that every take had, (22,).
        model: ``name`` and ``sha256`` of the weights whose hidden state is an input; None: no head needs it.
        origin: project, revision and time of the fit, as plain JSON.
    """
    arrays = {
        f"{i}.{name}": np.ascontiguousarray(array)
        for i, part in enumerate(parts)
        for name, array in part.arrays.items()
    }
    for i, gesture in enumerate(gestures):
        arrays |= {f"gesture.{i}.{k}": np.ascontiguousarray(take) for k, take in enumerate(gesture.takes)}
    taught = {name for part in parts if not part.label_of for name in part.outputs}
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "features_version": FEATURES_VERSION,
        "outputs": [output.to_dict() for output in outputs if output.name in taught],
        "mask": "".join("1" if present else "0" for present in mask),
        "model": dict(model) if model is not None else None,
        "lead_ms": options.lead_ms,
        "beyond": options.beyond,
        "novelty": options.novelty,
        "parts": [
            {
                "class": p.label_of,
                "outputs": list(p.outputs),
                "inputs": list(p.inputs),
                "kind": p.kind,
                "report": p.report,
            }
            for p in parts
        ],
        "gestures": [
            {"name": g.name, "threshold": g.threshold, "takes": len(g.takes), "report": g.report}
            for g in gestures
        ],
        "told": dict(origin),
        "sha256": _digest(arrays),
    }
    return safetensors.numpy.save(arrays, metadata={FORMAT: json.dumps(tree, allow_nan=False)})


@dataclass(frozen=True)
class _Head:
    """A part ready to play: the indices of its outputs among the mapping's names, and its arrays."""

    indices: tuple[int, ...]
    inputs: tuple[str, ...]
    projection: heads.Projection
    apply: Any
    near_places: F32
    near_squares: F32
    near_scale: F32
    near_level: float
    unlike: F32 | None = None
    """For a class: slope and offset of :func:`pyanticip.teach.classes.familiarity`."""
    shows_none: bool = False
    """Whether the last label of a class's head is ``none``."""

    def predict(self, u: F32, novelty: F64) -> F32:
        """Values (N, n) for components (N, K) of novelty (N,); for a class, of its labels and then none."""
        values: F32 = self.apply(u)
        if self.unlike is None:
            return values
        familiar = np.asarray(familiarity(self.unlike, novelty), np.float32)[:, None]
        labels = values[:, :-1] if self.shows_none else values
        return np.concatenate([labels * familiar, 1.0 - familiar * labels.sum(1, keepdims=True)], 1)

    def novelty(self, u: F32) -> F64:
        """Distance of components (N, K) from the takes; 1 is exceeded by 5 % of held-out frames."""
        x = u[:, : len(self.near_scale)] * self.near_scale
        products = np.einsum("ck,nk->nc", self.near_places, x)
        squares = (self.near_squares - 2.0 * products).min(1) + np.einsum("nk,nk->n", x, x)
        distance: F64 = np.sqrt(np.maximum(squares.astype(np.float64), 0.0)) / self.near_level
        return distance


class Mapping:
    """Taught outputs as a function of a frame's input blocks. Made by :func:`load_mapping`.

    Attributes:
        outputs: the taught outputs, in order.
        classes: the labels of each class, the last of which is ``none``.
        names: names of everything it computes, in order; labels as ``class/CLASS/LABEL``.
        inputs: input blocks that any head uses.
        lead_ms: how far ahead it predicts, milliseconds.
        beyond, novelty_limit: what outputs do above this novelty (:data:`pyanticip.teach.options.BEYOND`).
        gestures: gestures that it recognises.
        mask: joints that it was taught with, (22,).
        model: name and sha256 of the checkpoint that it needs, or None.
        hidden: size of that checkpoint's hidden state, 0 where it is not needed.
        reports: one per head.
        origin: project, revision and time of the fit.
        sha256: of the file.
    """

    def __init__(self, name: str, tree: Table[str, Any], arrays: Table[str, F32], sha256: str) -> None:
        self.name = name
        self.sha256 = sha256
        self.outputs = unique_names(Output.from_dict(o) for o in tree["outputs"])
        self.mask = np.array([c == "1" for c in tree["mask"]], np.bool_)
        self.model: dict[str, str] | None = tree["model"]
        self.lead_ms = int(tree["lead_ms"])
        self.beyond = str(tree["beyond"])
        self.novelty_limit = float(tree["novelty"])
        self.reports: list[dict[str, Any]] = [dict(part["report"]) for part in tree["parts"]]
        self.origin: dict[str, Any] = dict(tree["told"])
        self.hidden = 0
        self.classes = _classes(tree)
        self.gestures = _gestures(tree, arrays)
        order = [output.name for output in self.outputs]
        for name, labels in self.classes.items():
            order += [f"class/{name}/{label}" for label in labels]
        self.names = tuple(order)
        self._heads = [self._head(i, part, order, arrays) for i, part in enumerate(tree["parts"])]
        taught = sorted(index for head in self._heads for index in head.indices)
        if taught != list(range(len(order))):
            raise FormatError("each output needs one head")
        self.inputs = tuple(b for b in ("body", "hidden") if any(b in head.inputs for head in self._heads))

    def _head(self, i: int, part: Table[str, Any], order: list[str], arrays: Table[str, F32]) -> _Head:
        kind, inputs = part["kind"], check_blocks(part["inputs"])
        name = part.get("class", "")
        if name:
            indices = tuple(order.index(f"class/{name}/{label}") for label in self.classes[name])
        else:
            indices = tuple(order.index(output) for output in part["outputs"])
        sizes = {"n": len(part["outputs"]), "1": 1, "2": 2}
        mine: dict[str, F32] = {}
        for key, letters in (*_SHAPES, *(_CLASS_SHAPES if name else _HEAD_SHAPES)[kind]):
            array = arrays[f"{i}.{key}"]
            if array.dtype != np.float32 or array.ndim != len(letters) or not np.isfinite(array).all():
                raise FormatError(f"array {i}.{key} must be {len(letters)}-dimensional finite float32")
            for letter, size in zip(letters, array.shape, strict=True):
                if size < 1 or sizes.setdefault(letter, size) != size:
                    raise FormatError(f"array {i}.{key} has a shape that does not fit: {array.shape}")
            mine[key] = array
        if "neighbours" in mine and not 1 <= float(mine["neighbours"][0]) <= sizes["p"]:
            raise FormatError(f"array {i}.neighbours is out of range")
        if sizes.get("q", 0) > sizes["k"] or sizes["r"] > sizes["k"]:
            raise FormatError(f"head {i}: more components than the projection gives")
        hidden = sizes["f"] - (BODY if "body" in inputs else 0)
        if ("hidden" in inputs) != (hidden > 0) or (hidden and self.hidden not in (0, hidden)):
            raise FormatError(f"head {i}: {sizes['f']} inputs do not fit {', '.join(inputs)}")
        self.hidden = hidden or self.hidden
        near = mine["near_places"]
        return _Head(
            indices,
            inputs,
            heads.Projection(mine["mean"], mine["basis"]),
            compile_classifier(kind, mine) if name else heads.compile_head(kind, mine),
            near,
            np.einsum("nk,nk->n", near, near),
            mine["near_scale"],
            max(float(mine["near_level"][0]), 1e-6),
            mine.get("unlike"),
            bool(name) and NONE in part["outputs"],
        )

    @property
    def needs_model(self) -> bool:
        """Whether a head sees the trunk's hidden state."""
        return "hidden" in self.inputs

    def check_model(self, name: str, sha256: str, hidden: int) -> None:
        """Check that the checkpoint is the one whose hidden state the heads were trained on.

        Raises:
            CheckpointError: another one; the message says how to refit.
        """
        if not self.needs_model:
            return
        made_for = (self.model or {}).get("name", "another model")
        if (self.model or {}).get("sha256") != sha256:
            raise CheckpointError(
                f"mapping {self.name}: taught on model {made_for}, this one is {name}: fit it again with"
                " pyanticip teach fit PROJECT --checkpoint FOLDER (the takes stay as they are)"
            )
        if hidden != self.hidden:
            raise CheckpointError(
                f"mapping {self.name}: expects a hidden state of {self.hidden} numbers, model {name} tells"
                f" {hidden or 'none'}"
            )

    def missing_joints(self, mask: npt.ArrayLike) -> list[str]:
        """Names of joints that it was taught with and that a source with this mask (22,) lacks."""
        missing = self.mask & ~np.asarray(mask, np.bool_)
        return [CANONICAL_JOINTS[i] for i in np.flatnonzero(missing)]

    def apply(self, blocks: Table[str, F32], *, novel: bool = True) -> tuple[list[float], list[float]]:
        """Values in 0..1 and novelty, per name, for one frame's input blocks (width,).

        Without ``novel`` the novelty of outputs is not computed, and 0.
        """
        values = [0.0] * len(self.names)
        novelty = [0.0] * len(self.names)
        for head in self._heads:
            x = blocks[head.inputs[0]]
            if len(head.inputs) > 1:
                x = np.concatenate([blocks[b] for b in head.inputs])
            u = head.projection(x[None])
            head_novelty = head.novelty(u) if novel or head.unlike is not None else _NO_NOVELTY
            for index, value in zip(head.indices, head.predict(u, head_novelty)[0].tolist(), strict=True):
                values[index], novelty[index] = value, float(head_novelty[0])
        return values, novelty

    def apply_batch(self, blocks: Table[str, F32]) -> F32:
        """Values (T, n) in 0..1 for input blocks (T, width): :meth:`apply` for whole takes."""
        frames = len(blocks["body"])
        out = np.zeros((frames, len(self.names)), np.float32)
        for head in self._heads:
            u = head.projection(np.concatenate([blocks[b] for b in head.inputs], 1))
            out[:, list(head.indices)] = head.predict(u, head.novelty(u))
        return out


def load_mapping(path: str | os.PathLike[str]) -> Mapping:
    """Read a mapping file.

    Raises:
        FormatError: the file is missing, damaged, or no mapping.
        CheckpointError: made for another version of the features, or by a newer program.
    """
    file = Path(path)
    if file.is_dir():
        raise FormatError(f"{file}: is a folder; a project's mapping is {file / 'mapping.safetensors'}")
    data = read_file(file, MAX_BYTES, what="a mapping")
    tree = _tree(file, data)
    version = tree.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{file}: version must be a whole number from 1, got {version!r}")
    if version > VERSION:
        raise CheckpointError(f"{file}: version {version} is newer than this program's {VERSION}: update it")
    if tree.get("features_version") != FEATURES_VERSION:
        raise CheckpointError(
            f"{file}: taught on features version {tree.get('features_version')!r}, this program reads"
            f" version {FEATURES_VERSION}: fit it again with pyanticip teach fit PROJECT"
        )
    try:
        arrays = safetensors.numpy.load(data)
        if _digest(arrays) != tree["sha256"]:
            raise FormatError("its numbers are damaged (checksum)")
        _check(tree)
        name = tree["told"].get("name")
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 100:
            name = file.name
        return Mapping(name, tree, arrays, hashlib.sha256(data).hexdigest())
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, MotionError):
            raise FormatError(f"{file}: {error}") from None
        what = " ".join(str(error).split())[:100]
        how = "is cut or damaged:" if isinstance(error, SafetensorError) else "lacks a valid"
        raise FormatError(f"{file}: is not a usable mapping: {how} {what}") from None


def _tree(file: Path, data: bytes) -> dict[str, Any]:
    """The JSON in the metadata of the safetensors header."""
    try:
        tree = json.loads(safetensors_header(data, _MAX_HEADER_BYTES)["__metadata__"][FORMAT])
    except (ValueError, KeyError, TypeError, RecursionError):
        tree = None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise FormatError(f"{file}: is not a mapping; pyanticip teach fit writes them")
    return tree


def _classes(tree: Table[str, Any]) -> dict[str, tuple[str, ...]]:
    """The classes of the heads, each with its labels and then ``none``."""
    classes: dict[str, tuple[str, ...]] = {}
    for part in tree["parts"]:
        name = part.get("class", "")
        if not name:
            continue
        labels = [str(label) for label in part["outputs"]]
        for label in labels:
            check_labels({name: label})
        if name in classes or len(set(labels)) != len(labels) or NONE in labels[:-1]:
            raise FormatError(f"class {name}: its labels are invalid")
        classes[name] = (*(label for label in labels if label != NONE), NONE)
    return classes


def _gestures(tree: Table[str, Any], arrays: Table[str, F32]) -> tuple[Gesture, ...]:
    """The gestures in a mapping file."""
    gestures = []
    for i, entry in enumerate(tree.get("gestures", [])):
        name, threshold = entry["name"], float(entry["threshold"])
        check_labels({GESTURE: name})
        takes = tuple(arrays[f"gesture.{i}.{k}"] for k in range(int(entry["takes"])))
        least, most = GESTURE_FRAMES
        for take in takes:
            if take.dtype != np.float32 or take.shape[1:] != (len(CANONICAL_JOINTS), 4):
                raise FormatError(f"gesture {name}: its takes must be canonical rotations")
            if not least <= len(take) <= most or not np.isfinite(take).all():
                raise FormatError(f"gesture {name}: expected takes of {least} to {most} finite frames")
        gestures.append(Gesture(name, threshold, takes, dict(entry["report"])))
    if len({gesture.name for gesture in gestures}) != len(gestures):
        raise FormatError("a gesture appears twice")
    if gestures:
        make_spotter(gestures)  # raises for takes or thresholds that cannot be used
    return tuple(gestures)


def _check(tree: Table[str, Any]) -> None:
    """Check what the constructor of :class:`Mapping` relies on."""
    mask, model = tree["mask"], tree["model"]
    if not isinstance(mask, str) or len(mask) != len(CANONICAL_JOINTS) or set(mask) - {"0", "1"}:
        raise FormatError("the joint mask is invalid")
    if model is not None and not all(isinstance(model[key], str) for key in ("name", "sha256")):
        raise FormatError("the model's name is invalid")
    if tree["beyond"] not in BEYOND or not 0.0 < float(tree["novelty"]) < 1e6:
        raise FormatError("beyond or novelty is invalid")
    if not 0 <= int(tree["lead_ms"]) <= 400 or not isinstance(tree["told"], dict):
        raise FormatError("lead_ms or told is invalid")
    gestures = tree.get("gestures", [])
    if not isinstance(gestures, list) or len(gestures) > _MAX_PARTS:
        raise FormatError(f"expected at most {_MAX_PARTS} gestures")
    if not isinstance(tree["parts"], list) or not (not gestures) <= len(tree["parts"]) <= _MAX_PARTS:
        raise FormatError(f"expected 1 to {_MAX_PARTS} heads")


def _digest(arrays: Table[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
