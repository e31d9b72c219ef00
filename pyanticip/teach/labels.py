"""Labels of takes. A class has a name and labels; a take shows at most one label of each class.

The label ``none`` marks takes that show no other label of the class, such as what is done in between. The
name ``gesture`` is reserved: its labels are movements with a beginning and an end
(:mod:`pyanticip.teach.gestures`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyanticip.errors import OptionError

NONE = "none"
GESTURE = "gesture"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
# /anticip/class/NAME/enter and /leave are triggers.
_RESERVED = ("enter", "leave")


def check_labels(labels: object) -> Mapping[str, str]:
    """Labels by class, after a check that both are valid in an OSC address.

    Raises:
        OptionError: an invalid name, or no table.
    """
    if not isinstance(labels, dict):
        raise OptionError("labels: expected a table of classes")
    for name, label in labels.items():
        for what, text in (("class", name), ("label", label)):
            if not isinstance(text, str) or not _NAME.fullmatch(text):
                raise OptionError(
                    f"{what}: expected a letter, then letters, digits, _, - (32 at most),"
                    f" got {str(text)[:60]!r}"
                )
        if label in _RESERVED:
            raise OptionError(f"class {name}: {label!r} is the name of a trigger; choose another label")
    return labels


def parse_labels(text: str) -> dict[str, str]:
    """Labels from ``pose=crouch,place=left`` (separated by commas or blanks).

    Raises:
        OptionError: the text has another form.
    """
    found: dict[str, str] = {}
    for part in re.split(r"[,\s]+", text.strip()):
        name, mark, label = part.partition("=")
        if not mark:
            raise OptionError(f"classes: expected NAME=LABEL,..., as pose=crouch, got {text[:80]!r}")
        if name in found:
            raise OptionError(f"classes: {name!r} is given twice")
        found[name] = label
    check_labels(found)
    return found
