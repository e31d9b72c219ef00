"""Mistakes that somebody might make, and who ought to notice them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = Path(__file__).with_name("list")


@dataclass(frozen=True)
class Mistake:
    """A change of one place of the product, and who ought to notice."""

    name: str
    file: str
    """From the root of the repository."""
    old: str
    """Stands in its file exactly once."""
    new: str
    tests: tuple[str, ...]
    """Test files, and crates (``rust/...``) whose own tests are meant."""
    why: str = ""

    @property
    def line(self) -> int:
        """Where it is in the file."""
        return (ROOT / self.file).read_text(encoding="utf-8").partition(self.old)[0].count("\n") + 1

    def applied(self, text: str) -> str:
        """The file with the mistake in it."""
        return text.replace(self.old, self.new)


def listed() -> list[Mistake]:
    """The hand-made mistakes, of the files in ``list``.

    Raises:
        ValueError: the text of one is not in its file exactly once.
    """
    found = []
    for row in (row for file in sorted(LIST.iterdir()) for row in tomllib.loads(file.read_text())["mistake"]):
        text = (ROOT / row["file"]).read_text(encoding="utf-8")
        if (times := text.count(row["old"])) != 1:
            raise ValueError(f"{row['name']}: {row['file']} has its text {times} times, expected once")
        found.append(Mistake(**{**row, "tests": tuple(row["tests"])}))
    return found
