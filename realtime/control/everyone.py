"""The remote control of several performers: each one's commands under their name, and some for all."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from pyanticip.errors import MotionError, OptionError
from realtime.control.server import Action, plain_name

__all__ = ["everyones"]

# What is about one suit, one model or one take.
_OF_ONE = frozenset({"source", "plan", "cue/set", "rig/merge"})


def everyones(
    actions: Mapping[str, Mapping[str, Action]],
    families: Mapping[str, Mapping[str, Action]],
    shared: frozenset[str],
) -> tuple[dict[str, Action], dict[str, Action]]:
    """Commands and families of the whole show, of those of each performer by name.

    ``<performer>/<command>`` is for one, and what of ``shared`` makes sense for all at once, ``<command>``.
    Raises an OptionError where a performer is called as a command begins.
    """
    one = {f"{who}/{name}": act for who, own in actions.items() for name, act in own.items()}
    one |= {f"{who}/record/start": _recorded(who, own["record/start"]) for who, own in actions.items()}
    several = {f"{who}/{name}": act for who, own in families.items() for name, act in own.items()}
    commands = {
        name.partition("/")[0] for those in (actions, families) for own in those.values() for name in own
    }
    for who in actions:
        if who in commands:
            raise OptionError(f"performer.{who}: /anticip/control/{who} is a command; choose another name")
    both = {
        name: _for_all({who: one[f"{who}/{name}"] for who in actions})
        for name in next(iter(actions.values()))
        if name in shared - _OF_ONE
    }
    return one | both, several


def _recorded(who: str, start: Action) -> Action:
    """Each one's recording has their name behind what it is called."""

    def act(name: object = "") -> str | Awaitable[str]:
        plain = plain_name("record/start", name, "take", ".anticip").removesuffix(".anticip")
        return start(f"{plain}-{who}")

    return act


def _for_all(acts: Mapping[str, Action]) -> Action:
    """One command to all: nobody is left out because another refused."""

    def act(*arguments: object) -> str | Awaitable[str]:
        found: dict[str, str | Awaitable[str]] = {}
        refused: dict[str, str] = {}
        for who, one in acts.items():
            try:
                found[who] = one(*arguments)
            except (MotionError, OSError) as error:
                refused[who] = str(error)
        said = {who: answer for who, answer in found.items() if isinstance(answer, str)}
        waited = {who: answer for who, answer in found.items() if not isinstance(answer, str)}
        return _later(said, waited, refused) if waited else _told(said, refused)

    return act


async def _later(said: dict[str, str], waited: dict[str, Awaitable[str]], refused: dict[str, str]) -> str:
    for who, answer in waited.items():
        try:
            said[who] = await answer
        except (MotionError, OSError) as error:
            refused[who] = str(error)
    return _told(said, refused)


def _told(said: dict[str, str], refused: dict[str, str]) -> str:
    if refused:
        raise OptionError("; ".join(f"{who}: {text}" for who, text in refused.items()))
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "; ".join(f"{who}: {text}" for who, text in said.items())
