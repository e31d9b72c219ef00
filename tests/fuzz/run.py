"""Run every fuzzer in turns and print how far each came (``make fuzz MINUTES=10``).

The parsers of datagrams and recordings in Rust, with libFuzzer on stable Rust (its own crate,
``rust/anticip-wire/fuzz``); the readers of files in Python with :mod:`fuzz_files`. Both begin with seeds of
the project and are guided by the edges of the code. What libFuzzer finds on the way is kept in ``corpus``
beside the seeds, and the next run begins with it; the first bytes that break something are left in
``artifacts``.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WIRE = ROOT / "rust" / "anticip-wire" / "fuzz"
COVERED = (
    "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    " -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    " --cfg fuzzing -Cdebug-assertions"
)
"""What makes the compiler count edges, without a nightly one."""
FILES = ("bvh", "amc", "npz", "rig", "anticip")


class Row(NamedTuple):
    """How far a fuzzer came."""

    target: str
    executions: int
    seeds: int
    edges: int
    broken: bool


def wire_targets() -> list[str]:
    """The parsers in Rust."""
    return sorted(folder.name for folder in (WIRE / "seeds").iterdir())


def build() -> Path:
    """Compile the fuzzers of the parsers; the program. What is missing is said in a line."""
    for tool, what in (("rustc", "a Rust toolchain (rustup.rs)"), ("c++", "a C++ compiler, for libFuzzer")):
        if shutil.which(tool) is None:
            raise SystemExit(f"make fuzz needs {what}: {tool} was not found")
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.findall(r"host: (\S+)", told)[0]
    target = Path(os.environ.get("CARGO_TARGET_DIR", WIRE / "target"))
    # A target that is named keeps the flags away from build scripts.
    command = ["cargo", "build", "--quiet", "--release", "--target", host, "--target-dir", str(target)]
    if subprocess.run(command, cwd=WIRE, env={**os.environ, "RUSTFLAGS": COVERED}, check=False).returncode:
        raise SystemExit("make fuzz: the fuzzers of the parsers could not be compiled (see above)")
    return target / host / "release" / "parser"


def wire(binary: Path, name: str, seconds: int) -> Row:
    """One parser."""
    corpus, artifacts = WIRE / "corpus" / name, WIRE / "artifacts" / name
    for folder in (corpus, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = str(WIRE / "seeds" / name)
    begun = said(name, [str(binary), "-runs=0", "-max_len=8192", seeds])
    command = [str(binary), f"-max_total_time={seconds}", "-max_len=8192", "-print_final_stats=1"]
    done = said(name, [*command, f"-artifact_prefix={artifacts}/", str(corpus), seeds])
    executed = re.findall(r"stat::number_of_executed_units: +(\d+)", done)
    edges = [int(found) for found in re.findall(r"cov: (\d+)", done)]
    broken = "DONE" not in done
    if broken:
        print(done[-3000:], file=sys.stderr)
    at_first = re.findall(r"INITED cov: (\d+)", begun)
    return Row(name, int(executed[0]) if executed else 0, int(at_first[0]), max(edges, default=0), broken)


def said(name: str, command: list[str]) -> str:
    """What libFuzzer says."""
    env = {**os.environ, "FUZZ": name}
    return subprocess.run(
        command, env=env, capture_output=True, text=True, errors="replace", check=False
    ).stderr


def files(name: str, seconds: int) -> Row:
    """One reader of files."""
    program = str(Path(__file__).with_name("fuzz_files.py"))
    command = [sys.executable, program, name, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        return Row(f"{name} files", 0, 0, 0, True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Row(f"{name} files", found["executions"], found["seeds"], found["edges"], False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="of all together, without compiling")
    minutes = parser.parse_args().minutes
    binary = build()
    turn = max(1, round(60 * minutes / (len(wire_targets()) + len(FILES))))
    print("| target | executions | edges of the seeds | edges | broken |\n| --- | --: | --: | --: | --- |")
    found = []
    for name in (*wire_targets(), *FILES):
        row = files(name, turn) if name in FILES else wire(binary, name, turn)
        found.append(row)
        words = f"{row.executions:,} | {row.seeds:,} | {row.edges:,} | {'yes' if row.broken else 'no'}"
        print(f"| {row.target} | {words} |", flush=True)
    return int(any(row.broken for row in found))


if __name__ == "__main__":
    sys.exit(main())
