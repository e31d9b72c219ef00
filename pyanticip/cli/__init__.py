"""The command line: the composition root, and the only package that imports both realtime and training.

A command is a function of one option class (:mod:`pyanticip.cli.generate`). It imports what it needs when it
runs, so that help and errors are quick.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyanticip.cli.commands import cli as cli


def main() -> None:
    """Entry point of the console script and of ``python -m pyanticip``."""
    try:
        # Imported here so that Ctrl-C during the import is handled too.
        from pyanticip.cli import terminal
        from pyanticip.cli.commands import cli

        terminal.prepare_streams()
        code = terminal.run(cli)
        terminal.drop_unwritten()
    except KeyboardInterrupt:
        code = 130
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # A further Ctrl-C ends the process at once: an interpreter that is exiting would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def __getattr__(name: str) -> Any:
    if name == "cli":
        from pyanticip.cli.commands import cli

        return cli
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
