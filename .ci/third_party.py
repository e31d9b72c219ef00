"""Writes THIRD_PARTY: the third-party crates that the wheel is linked with, and their licences.

Run ``python .ci/third_party.py`` (3.11 or later) after a change of Cargo.lock. The crates of all platforms
are listed; copyright lines and licence texts are copied from their sources, each text once.
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

# Licences and a phrase that identifies the text of each. The first one that a crate offers is used.
LICENCE_PHRASES = {
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
library (MIT or Apache-2.0, The Rust Project Developers). Each entry gives the address of the source code and
the copyright lines; the licences follow, each text once.
"""
TOOLS = "Only run while it is compiled: "
_LICENCE_FILE = re.compile(r"(un)?licen[cs]e|copying|authors", re.IGNORECASE)
# Lines that differ between crates with the same licence text.
_CRATE_SPECIFIC = re.compile(r"\s*(copyright\b|all rights reserved|(the )?mit license)", re.IGNORECASE)
_COPYRIGHT = re.compile(r"\s*copyright\b", re.IGNORECASE)


def locked() -> set[Crate]:
    """Third-party crates that Cargo.lock has for the wheel, linked or only run while it is compiled."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for package in lock:
        by_name.setdefault(package["name"], []).append(package)
    queue, found, own = [WHEEL], set(), set()
    while queue:
        name, _, version = queue.pop().partition(" ")
        (package,) = (one for one in by_name[name] if version in ("", one["version"]))
        deps = package.get("dependencies", [])
        if "source" not in package:
            if name in own:
                continue
            own.add(name)
            deps = [dep for dep in deps if dep.partition(" ")[0] in _build_dependencies(name)]
        elif (name, package["version"]) in found:
            continue
        else:
            found.add((name, package["version"]))
        queue += deps
    return found


def _build_dependencies(crate: str) -> set[str]:
    """Dependencies of a crate of this repository, without those of its tests."""
    manifest = tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())
    return {*manifest.get("dependencies", {}), *manifest.get("build-dependencies", {})}


def linked() -> list[dict[str, Any]]:
    """Third-party packages, as Cargo describes them, that the wheel is linked with on some platform."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    queue = [package_id for package_id, package in packages.items() if package["name"] == WHEEL]
    found = set(queue)
    while queue:
        for dep in nodes[queue.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dep["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in packages[dep["pkg"]]["targets"])
            if is_linked and not is_macro and dep["pkg"] not in found:
                found.add(dep["pkg"])
                queue.append(dep["pkg"])
    third_party = [packages[i] for i in found if packages[i]["source"] is not None]
    return sorted(third_party, key=lambda package: (package["name"], package["version"]))


def listed(text: str) -> tuple[set[Crate], set[Crate]]:
    """The crates that the text of THIRD_PARTY lists as linked, and as only run while it is compiled."""
    crates, _, tools = text.partition(f"\n{TOOLS}")
    found = re.findall(r"^([\w-]+) (\d[\w.+-]*) \(", crates, re.MULTILINE)
    tool_crates = re.findall(r"([\w-]+)\s(\d[\w.+-]*)", tools.partition("\n\n")[0])
    return set(found), set(tool_crates)


def _licence(package: dict[str, Any]) -> str:
    """The licence used, of those that the package offers."""
    offered = re.split(r" OR |/", package["license"])
    return next(name for name in LICENCE_PHRASES if name in offered)


def _licence_text(package: dict[str, Any], licence: str) -> str:
    """The text of the package's file with this licence, or an empty string."""
    folder = Path(package["manifest_path"]).parent
    for file in sorted(folder.iterdir()):
        if file.is_file() and _LICENCE_FILE.match(file.name):
            text = file.read_text(encoding="utf-8")
            if LICENCE_PHRASES[licence] in " ".join(text.split()):
                return text
    return ""


def third_party() -> str:
    """The text of THIRD_PARTY."""
    entries: list[str] = []
    # Licence and the letters of its text: the crates with it, and the text as in the first of them.
    texts: dict[tuple[str, str], tuple[list[str], str]] = {}
    packages = linked()
    for package in packages:
        licence, name = _licence(package), f"{package['name']} {package['version']}"
        lines = _licence_text(package, licence).splitlines()
        shared = "\n".join(line.rstrip() for line in lines if not _CRATE_SPECIFIC.match(line)).strip("\n")
        copyrights = [" ".join(line.split()) for line in lines if _COPYRIGHT.match(line)]
        if licence in ("Apache-2.0", "MPL-2.0"):
            copyrights, shared = [], "\n".join(line.rstrip() for line in lines).strip("\n")
        copyrights = copyrights or [f"by {author.partition(' <')[0]}" for author in package["authors"]]
        entries.append(
            "\n    ".join((f"{name} ({licence}) {package['repository'] or ''}".rstrip(), *copyrights))
        )
        if shared:
            key = licence, re.sub(r"[^a-z]", "", shared.lower())
            texts.setdefault(key, ([], shared))[0].append(name)
    tools = sorted(locked() - {(package["name"], package["version"]) for package in packages})
    tool_line = TOOLS + ", ".join(f"{name} {version}" for name, version in tools)
    parts = [HEAD, "\n".join(entries) + "\n", textwrap.fill(tool_line, 110, break_on_hyphens=False) + "\n"]
    order = list(LICENCE_PHRASES)
    for (licence, _), (crates, text) in sorted(
        texts.items(), key=lambda item: (order.index(item[0][0]), -len(item[1][0]))
    ):
        users = ", ".join(crates) if len(crates) <= 10 else "all but those named with another text"
        parts.append(f"{'=' * 80}\n{licence}: {users}\n{'=' * 80}\n\n{text}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    OUT.write_text(third_party(), encoding="utf-8")
