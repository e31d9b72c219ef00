"""docs/api.md's table of what ``--json`` says is what the commands say."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyanticip import load_motion
from pyanticip.cli import cli
from pyanticip.motion.bvh import save_bvh
from realtime.programs.demo import PERFORMANCE

ROWS = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)


def table() -> list[tuple[str, set[str]]]:
    page = Path(__file__).resolve().parents[2] / "docs" / "api.md"
    _, _, section = page.read_text(encoding="utf-8").partition("## What `--json` says")
    rows = ROWS.findall(section)
    return [(command, set(re.findall(r"`(\w+)`", keys.partition(":")[0]))) for command, keys in rows]


def test_the_keys_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_bvh(load_motion(PERFORMANCE)[:300], "dance.bvh")
    ask = CliRunner().invoke
    assert ask(cli, ["teach", "new", "mine", "--outputs", "brightness"]).exit_code == 0
    rows = table()
    assert len(rows) == 10
    for command, keys in rows:
        answer = ask(cli, [*command.split(), "--json"])
        assert set(json.loads(answer.stdout)) == keys, command
