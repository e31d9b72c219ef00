"""What the site does with links that leave it: files of the repository are named, not linked."""

import re
from posixpath import dirname, join, normpath

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s:]+)(#[^)]*)?\)")


def on_page_markdown(markdown, *, page, config, files):
    """Turn links to files outside the documentation into their text, the path in code letters."""
    here = dirname(page.file.src_uri)

    def shown(link: re.Match[str]) -> str:
        target = normpath(join(here, link[2]))
        return link[0] if not target.startswith("..") else f"{link[1]} (`{target.removeprefix('../')}`)"

    return LINK.sub(shown, markdown)
