"""The command that wears a show out: ``pyanticip soak``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Command
from pyanticip.cli.terminal import Answer, say

if TYPE_CHECKING:
    from realtime.soak.options import SoakOptions


@click.command(cls=Command, options="realtime.soak.options:SoakOptions")
def soak(given: SoakOptions) -> Answer:
    """Play for hours while one thing after another goes wrong.

    A suit of its own plays to a show of its own, which has every sink; processes are killed, disks fill up,
    networks fail, commands come in floods. Nobody hears it. Linux.

    Example: pyanticip soak --hours 1 --out soaked
    """
    from realtime.soak import tables
    from realtime.soak.kills import kills
    from realtime.soak.run import run

    if given.kills:
        result = kills(given.kills, given.out, seed=given.seed, say=say)
        return result, tables.deaths, int(not tables.is_over_well(result))
    result = run(3600.0 * given.hours, given.out, seed=given.seed, say=say)
    return result, tables.faults, int(not tables.is_well(result))
