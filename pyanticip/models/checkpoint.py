"""Save and load checkpoints: safetensors and JSON, never pickle, with the graphs of the live path beside
them."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from pyanticip.errors import CheckpointError
from pyanticip.models.manifest import (
    MANIFEST,
    SLOW_GRAPH,
    STEP_GRAPH,
    WEIGHTS,
    describe,
    read_manifest,
)
from pyanticip.models.motion import MotionTransformer


def save_checkpoint(
    path: str | Path, model: MotionTransformer, *, training: Mapping[str, Any] | None = None
) -> Path:
    """Write a checkpoint folder with weights, description and both ONNX graphs; an older one is replaced
    whole.

    Needs the packages ``onnx`` and ``onnxscript`` (the ``train`` extra).

    :param path: the folder to write.
    :param model: a float32 model; where its weights lie and its training mode stay as they are.
    :param training: what to note about how it was trained; JSON values.
    :returns: the folder.
    :raises CheckpointError: weights that are not finite, or a graph that does not do what the model does.
    """
    from pyanticip.models.export import export_graphs

    folder = Path(path)
    tensors = {name: t.detach().to("cpu").contiguous().clone() for name, t in model.state_dict().items()}
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"cannot save {folder}: {name} is not finite float32")
    copy = MotionTransformer(model.cfg)
    copy.load_state_dict(tensors)
    copy.eval()
    draft = folder.with_name(folder.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        (draft / WEIGHTS).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))
        export_graphs(copy, draft)
        count = sum(p.numel() for p in copy.parameters())
        content = describe(model.cfg, count, training or {})
        content["written_by"] = {name: _version(name) for name in ("pyanticip", "torch", "onnx")}
        content["sha256"] = {
            name: hashlib.sha256((draft / name).read_bytes()).hexdigest()
            for name in (WEIGHTS, STEP_GRAPH, SLOW_GRAPH)
        }
        (draft / MANIFEST).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
        manifest = read_manifest(draft)
        for graph in (STEP_GRAPH, SLOW_GRAPH):
            manifest.graph(graph)
        old = folder.with_name(folder.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        draft.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def load_checkpoint(
    path: str | Path | None = None, *, device: str | torch.device = "cpu"
) -> MotionTransformer:
    """Load a model in evaluation mode.

    :param path: the checkpoint folder; ``None`` for the one that comes with the package.
    :raises CheckpointError: missing, damaged, made by a newer version, or made for other features.
    """
    manifest = read_manifest(path)
    data = manifest.read(WEIGHTS)
    where = f"checkpoint {manifest.folder}"
    try:
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{where}: {WEIGHTS} cannot be read: {_line(error)}") from None
    model = MotionTransformer(manifest.config)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise CheckpointError(f"{where}: {WEIGHTS} does not fit its configuration: {_line(error)}") from None
    return model.to(device).eval()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
