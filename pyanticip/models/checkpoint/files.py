"""Save and load checkpoints: safetensors and JSON, never pickle."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from pyanticip.errors import CheckpointError, OptionError, one_line
from pyanticip.models.checkpoint.folder import draft_checkpoint
from pyanticip.models.checkpoint.manifest import (
    LANGUAGE_FORMAT,
    LANGUAGE_VERSION,
    MANIFEST,
    TOKENIZER,
    WEIGHTS,
    Manifest,
    describe,
    read_description,
    read_language_manifest,
    read_manifest,
)
from pyanticip.models.config import ModelConfig
from pyanticip.models.motion.transformer import MotionTransformer
from pyanticip.models.parts.positions.prism.module import PrismPositions
from pyanticip.models.token.baseline import BaselineTransformer
from pyanticip.models.token.transformer import AnticipatoryTransformer, LanguageModel

Model = TypeVar("Model", bound=nn.Module)


def save_checkpoint(
    path: str | Path,
    model: MotionTransformer | LanguageModel,
    *,
    training: Mapping[str, Any] | None = None,
    tokenizer: str | None = None,
) -> Path:
    """Write a checkpoint folder: weights and a description, and for a token model the tokenizer.

    An existing checkpoint is replaced as a whole.

    Args:
        path: the folder to write.
        model: a float32 model, also if compiled or wrapped for several devices; its device and training mode
            do not change.
        training: notes on how it was trained, as JSON values.
        tokenizer: the text of a token model's ``tokenizer.json``.

    Returns:
        the folder.

    Raises:
        CheckpointError: weights that are not finite float32, or a folder that holds anything but a
            checkpoint.
        OptionError: a model outside the family, a tokenizer for a motion model, or notes that are not JSON.
    """
    folder, model = Path(path), _unwrapped(model)
    try:
        json.dumps(dict(training or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError(f"training must be what JSON can hold: {one_line(error)}") from None
    config, count = _config(model), _count(model)
    if isinstance(model, MotionTransformer):
        if tokenizer is not None:
            raise OptionError("a motion model has no tokenizer")
        return write_checkpoint(
            folder,
            model,
            describe(config, count, training or {}),
            lambda draft: MotionTransformer(read_manifest(draft).config),
        )
    content = {
        "format": LANGUAGE_FORMAT,
        "version": LANGUAGE_VERSION,
        "kind": "baseline" if isinstance(model, BaselineTransformer) else "anticipatory",
        "config": config.to_dict(),
        "parameter_count": count,
        "training": dict(training or {}),
    }
    return write_checkpoint(
        folder, model, content, lambda draft: _token_model(read_language_manifest(draft)), tokenizer
    )


def write_checkpoint(
    folder: Path,
    model: nn.Module,
    content: dict[str, Any],
    build_described: Callable[[Path], nn.Module],
    tokenizer: str | None = None,
) -> Path:
    """Write a model's weights, a tokenizer and a description to a folder, replacing an older checkpoint.

    Args:
        content: the content of ``model.json`` except program versions and the other files' hashes.
        build_described: builds the model that a folder describes, into which the weights must fit.

    Raises:
        CheckpointError: see :func:`save_checkpoint`.
    """
    tensors = _finite_weights(model, folder)
    with draft_checkpoint(folder) as draft:
        (draft / WEIGHTS).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))
        if tokenizer is not None:
            (draft / TOKENIZER).write_text(tokenizer, encoding="utf-8")
        content["written_by"] = {name: _version(name) for name in ("pyanticip", "torch")}
        content["sha256"] = {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(draft.iterdir())
        }
        (draft / MANIFEST).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
        check_fit(lambda: build_described(draft), tensors, f"cannot save {folder}")
    return folder


def _unwrapped(model: Any) -> Any:
    """The model inside wrappers such as those of ``torch.compile`` and ``DataParallel``."""
    while not isinstance(model, (MotionTransformer, BaselineTransformer, AnticipatoryTransformer)):
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if inner is None:
            raise OptionError(f"model must be one of the family, got {type(model).__name__}")
        model = inner
    return model


def _finite_weights(model: nn.Module, folder: Path) -> dict[str, Tensor]:
    """Copies of a model's weights, on the CPU.

    Raises:
        CheckpointError: weights that are not finite float32.
    """
    tensors = {name: t.detach().to("cpu").contiguous().clone() for name, t in model.state_dict().items()}
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise CheckpointError(
                f"cannot save {folder}: {name} is {kind}: save a float32 model (model.float())"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"cannot save {folder}: {name} is not finite")
    return tensors


def _config(model: MotionTransformer | LanguageModel) -> ModelConfig:
    """A model's current configuration: its number of PRISM places may have been changed."""
    for part in model.parts():
        if isinstance(part, PrismPositions) and part.cfg != model.cfg.positions:
            return model.cfg.replace(positions=part.cfg)
    return model.cfg


def _count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def load_checkpoint(
    path: str | Path | None = None, *, device: str | torch.device = "cpu"
) -> MotionTransformer | LanguageModel:
    """Load a model of the family, whichever the folder holds, in evaluation mode.

    Args:
        path: the checkpoint folder; ``None`` for the packaged motion model.

    Raises:
        CheckpointError: missing, damaged, written by a newer version, or made for other features.
    """
    if path is not None and read_description(Path(path)).get("format") == LANGUAGE_FORMAT:
        return load_language_model(path, device=device)
    return load_motion_model(path, device=device)


def load_motion_model(
    path: str | Path | None = None, *, device: str | torch.device = "cpu"
) -> MotionTransformer:
    """Load a motion model in evaluation mode; see :func:`load_checkpoint`."""
    manifest = read_manifest(path)
    return _load(lambda: MotionTransformer(manifest.config), manifest).to(device).eval()


def load_language_model(path: str | Path, *, device: str | torch.device = "cpu") -> LanguageModel:
    """Load a token model in evaluation mode; see :func:`load_checkpoint`."""
    manifest = read_language_manifest(path)
    return _load(lambda: _token_model(manifest), manifest).to(device).eval()


def _token_model(manifest: Manifest) -> LanguageModel:
    if manifest.kind == "baseline":
        # The saved configuration already has the widened layers.
        return BaselineTransformer(manifest.config, matched=False)
    return AnticipatoryTransformer(manifest.config)


def _load(build: Callable[[], Model], manifest: Manifest) -> Model:
    where = f"checkpoint {manifest.folder}"
    return build_with_weights(build, manifest.read(WEIGHTS), where, manifest.parameters)


def build_with_weights(
    build: Callable[[], Model], data: bytes, where: str, parameters: int | None = None
) -> Model:
    """Build a model with the weights in the bytes of a safetensors file.

    Args:
        build: builds the described model.
        where: the checkpoint, for error messages.
        parameters: see :func:`check_fit`.

    Raises:
        CheckpointError: not a safetensors file, or weights of another model.
    """
    try:
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{where}: {WEIGHTS} cannot be read: {one_line(error)}") from None
    tensors = {current_weight_name(name): tensor for name, tensor in tensors.items()}
    check_fit(build, tensors, where, parameters)
    model = build()
    model.load_state_dict(tensors)
    return model


def check_fit(
    build: Callable[[], nn.Module], tensors: Mapping[str, Tensor], where: str, parameters: int | None = None
) -> None:
    """Check that weights fit the described model, which is built without memory for its weights.

    Args:
        parameters: number of parameters in the description, if it has one.

    Raises:
        CheckpointError: a weight or the number of parameters does not fit.
    """
    with torch.device("meta"):
        empty = build()
    expected = {name: tuple(tensor.shape) for name, tensor in empty.state_dict().items()}
    actual = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in (*expected, *actual):
        if expected.get(name) != actual.get(name):
            has, needs = actual.get(name, "missing"), expected.get(name, "none")
            raise CheckpointError(
                f"{where}: {WEIGHTS} does not fit its configuration: {name} is {has}, expected {needs}"
            )
    if parameters not in (None, _count(empty)):
        raise CheckpointError(
            f"{where}: parameter_count is {parameters}, its configuration has {_count(empty)}"
        )


def current_weight_name(name: str) -> str:
    """The current name of a weight; checkpoints before version 5 (2 of token models) named those of positions
    differently."""
    name = re.sub(r"^(trunk\.)?prism\.", r"\1positions.", name)
    return re.sub(r"\.places\.(alpha|share)$", r".mix.\1", name)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
