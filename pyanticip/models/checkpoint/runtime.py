"""ONNX Runtime as this project uses it: one thread, and nothing sent anywhere."""

import os
from pathlib import Path
from typing import Any

__all__ = ["onnxruntime", "open_session"]


def onnxruntime() -> Any:
    """The module, imported with its telemetry off.

    Builds since 1.31 otherwise start a thread that reports runs to their maker over the network, which an
    instrument on stage must not do; it has to be said before the first import.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def open_session(path: Path) -> Any:
    """An inference session of a graph on one CPU thread that never spins.

    :raises Exception: whatever the runtime has against the graph.
    """
    ort = onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
