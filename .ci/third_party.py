"""Writes THIRD_PARTY: the crates of other people that the wheel is linked with, and their licences.

``python .ci/third_party.py`` (3.11 or later), after a change of Cargo.lock. Cargo says which crates these
are, on any platform; copyright lines and licence texts are those of their sources, each text once.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "THIRD_PARTY"
WHEEL = "anticip-python"

Crate = tuple[str, str]
"""Name and version."""

# Where a crate leaves a choice, the first of these is taken; and what its text is known by.
KNOWN_BY = {
    "MIT": "Permission is hereby granted, free of charge",
    "Zlib": "This software is provided 'as-is'",
    "BSD-2-Clause": "Redistribution and use in source and binary forms",
    "0BSD": "Permission to use, copy, modify, and/or distribute",
    "Apache-2.0": "Apache License",
    "MPL-2.0": "Mozilla Public License Version 2.0",
}
HEAD = """\
pyanticip is under the MIT licence, see LICENSE. Its compiled core, pyanticip/_core, is linked with the crates
below, all as published, each on the platforms and in the parts that it needs, and with Rust's standard
library (MIT or Apache-2.0, The Rust Project Developers). With each stand the address of its source code and
its copyright lines; behind them the licences, each text once.
"""
TOOLS = "Only run while it is compiled: "
_LICENCE_FILE = re.compile(r"(un)?licen[cs]e|copying|authors", re.IGNORECASE)
# Lines that differ from crate to crate above the same text.
_OWN = re.compile(r"\s*(copyright\b|all rights reserved|(the )?mit license)", re.IGNORECASE)
_COPYRIGHT = re.compile(r"\s*copyright\b", re.IGNORECASE)


def locked() -> set[Crate]:
    """Other people's crates that Cargo.lock has for the wheel: linked, or only run while it is compiled."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for package in lock:
        by_name.setdefault(package["name"], []).append(package)
    waiting, found, ours = [WHEEL], set(), set()
    while waiting:
        name, _, version = waiting.pop().partition(" ")
        (package,) = (one for one in by_name[name] if version in ("", one["version"]))
        deps = package.get("dependencies", [])
        if "source" not in package:
            if name in ours:
                continue
            ours.add(name)
            deps = [dep for dep in deps if dep.partition(" ")[0] in _built_with(name)]
        elif (name, package["version"]) in found:
            continue
        else:
            found.add((name, package["version"]))
        waiting += deps
    return found


def _built_with(crate: str) -> set[str]:
    """What a crate of ours names for more than its tests."""
    manifest = tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())
    return {*manifest.get("dependencies", {}), *manifest.get("build-dependencies", {})}


def linked() -> list[dict[str, Any]]:
    """Cargo's packages that the wheel is linked with on some platform, without our own."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    said = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in said["packages"]}
    nodes = {node["id"]: node for node in said["resolve"]["nodes"]}
    waiting = [one for one, package in packages.items() if package["name"] == WHEEL]
    found = set(waiting)
    while waiting:
        for dep in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dep["dep_kinds"])
            runs = any("proc-macro" in target["kind"] for target in packages[dep["pkg"]]["targets"])
            if is_linked and not runs and dep["pkg"] not in found:
                found.add(dep["pkg"])
                waiting.append(dep["pkg"])
    others = [packages[one] for one in found if packages[one]["source"] is not None]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def listed(text: str) -> tuple[set[Crate], set[Crate]]:
    """The crates that a THIRD_PARTY names as linked, and as only run while it is compiled."""
    crates, _, tools = text.partition(f"\n{TOOLS}")
    found = re.findall(r"^([\w-]+) (\d[\w.+-]*) \(", crates, re.MULTILINE)
    named = re.findall(r"([\w-]+)\s(\d[\w.+-]*)", tools.partition("\n\n")[0])
    return set(found), set(named)


def _taken(package: dict[str, Any]) -> str:
    """The licence that is taken, of those it offers."""
    offered = re.split(r" OR |/", package["license"])
    return next(name for name in KNOWN_BY if name in offered)


def _text(package: dict[str, Any], licence: str) -> str:
    """The file of a crate that has this licence; empty: it has none."""
    folder = Path(package["manifest_path"]).parent
    for file in sorted(folder.iterdir()):
        if file.is_file() and _LICENCE_FILE.match(file.name):
            text = file.read_text(encoding="utf-8")
            if KNOWN_BY[licence] in " ".join(text.split()):
                return text
    return ""


def third_party() -> str:
    """The file."""
    entries: list[str] = []
    # By licence and the letters of its text alone: the crates, and the text as the first of them has it.
    texts: dict[tuple[str, str], tuple[list[str], str]] = {}
    packages = linked()
    for package in packages:
        licence, name = _taken(package), f"{package['name']} {package['version']}"
        lines = _text(package, licence).splitlines()
        shared = "\n".join(line.rstrip() for line in lines if not _OWN.match(line)).strip("\n")
        own = [" ".join(line.split()) for line in lines if _COPYRIGHT.match(line)]
        if licence in ("Apache-2.0", "MPL-2.0"):
            own, shared = [], "\n".join(line.rstrip() for line in lines).strip("\n")
        own = own or [f"by {author.partition(' <')[0]}" for author in package["authors"]]
        entries.append("\n    ".join((f"{name} ({licence}) {package['repository'] or ''}".rstrip(), *own)))
        if shared:
            key = licence, re.sub(r"[^a-z]", "", shared.lower())
            texts.setdefault(key, ([], shared))[0].append(name)
    tools = sorted(locked() - {(package["name"], package["version"]) for package in packages})
    told = TOOLS + ", ".join(f"{name} {version}" for name, version in tools)
    parts = [HEAD, "\n".join(entries) + "\n", textwrap.fill(told, 110, break_on_hyphens=False) + "\n"]
    order = list(KNOWN_BY)
    for (licence, _), (crates, text) in sorted(
        texts.items(), key=lambda item: (order.index(item[0][0]), -len(item[1][0]))
    ):
        whose = ", ".join(crates) if len(crates) <= 10 else "all but those named with another text"
        parts.append(f"{'=' * 80}\n{licence}: {whose}\n{'=' * 80}\n\n{text}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    OUT.write_text(third_party(), encoding="utf-8")
