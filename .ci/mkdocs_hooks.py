"""Replaces links that leave the documentation site by the name of the file in the repository."""

import re
from posixpath import dirname, join, normpath

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s:]+)(#[^)]*)?\)")


def on_page_markdown(markdown, *, page, config, files):
    """Turn links to files outside the documentation into their text and the path, as code."""
    here = dirname(page.file.src_uri)

    def replacement(link: re.Match[str]) -> str:
        target = normpath(join(here, link[2]))
        return link[0] if not target.startswith("..") else f"{link[1]} (`{target.removeprefix('../')}`)"

    return LINK.sub(replacement, markdown)
