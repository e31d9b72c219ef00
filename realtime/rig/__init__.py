"""The rig: one frozen configuration tree of inputs, model, sound and outputs.

Precedence: command line, then the rig file (TOML), then the defaults. Unknown keys are refused with a
suggestion; every error is one line that names the file and the key.
"""

from realtime.rig.load import load_rig, parse_rig, template
from realtime.rig.source import BackendKind, SentKind, SourceRig
from realtime.rig.tree import Rig

__all__ = [
    "BackendKind",
    "Rig",
    "SentKind",
    "SourceRig",
    "load_rig",
    "parse_rig",
    "template",
]
