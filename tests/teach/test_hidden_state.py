"""The hidden state that heads are read on: told by every backend, alike, and only by graphs that have it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from swinging import swing

from pyanticip.models.manifest import MANIFEST, SHIPPED, STEP_GRAPH, read_manifest
from pyanticip.teach.fit import FitOptions
from pyanticip.teach.project import Project
from realtime.step import OnnxBackend, open_backend
from realtime.teaching.fitting import fit_project


def test_backends_tell_the_same_hidden_state() -> None:
    onnx, reference = open_backend("onnx"), open_backend("torch")
    rows = swing(2, seed=3).features()
    told = []
    for t in range(len(rows)):
        one, two = onnx.step(rows[t : t + 1]), reference.step(rows[t : t + 1])
        assert one.hidden is not None
        assert two.hidden is not None
        told.append(one.hidden)
        assert one.hidden == pytest.approx(two.hidden, abs=1e-4)
    assert np.shape(told) == (100, read_manifest().config.d_model)
    assert np.std(told, axis=0).max() > 0.1, "each step's own, not one array told again and again"


def test_a_graph_without_it_steps_and_teaches_on_the_body(tmp_path: Path, project: Project) -> None:
    onnx = pytest.importorskip("onnx")
    older = tmp_path / "older"
    shutil.copytree(SHIPPED, older)
    graph = onnx.load(older / STEP_GRAPH, load_external_data=False)
    kept = [output for output in graph.graph.output if output.name != "hidden"]
    del graph.graph.output[:]
    graph.graph.output.extend(kept)
    data = graph.SerializeToString()
    (older / STEP_GRAPH).write_bytes(data)
    manifest = json.loads((older / MANIFEST).read_text())
    manifest["sha256"][STEP_GRAPH] = hashlib.sha256(data).hexdigest()
    (older / MANIFEST).write_text(json.dumps(manifest))
    backend = OnnxBackend(read_manifest(older))
    assert backend.hidden == 0
    assert backend.step(swing(1).features()[:1]).hidden is None
    said: list[str] = []
    report = fit_project(project.folder, FitOptions("ridge"), checkpoint=older, say=said.append)
    assert report["model"] is None
    assert report["parts"][0]["inputs"] == ["body"]
    assert any("does not tell its hidden state" in line for line in said)
