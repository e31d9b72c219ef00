"""How strongly content moves positions, by what kind of content it is. No torch."""

import re
import zlib

CONTENT = ("code", "dialogue", "random", "text")
"""What :func:`content_type` tells apart."""

_SPEAKER = re.compile(r"\s*([\"“”'‘’«»–—-]|[A-Z][\w .'-]{0,24}:\s)")
_CODE = re.compile(
    r"^\s|^(def|class|import|return|if|for|fn|let|use|#include)\b.*[;:({>]|[;{}]\s*$|\w\(.*\)\s*$"
)
_STRENGTHS = {"code": 0.25, "dialogue": 0.15, "random": 0.0}
_NOISE = 0.62
"""Deflated bytes per byte from which text is taken for noise: some 1,000 bytes of English stay below."""
_LEAST_BYTES = 1000


def auto_strength(content: str) -> float:
    """Displacement per step at most, for a kind of content: .25 code, .15 dialogue, 0 random, else .2.

    The paper (Trajectory-Guided Positional Encoding, 2025) writes four single conditions, by which the last
    would overrule the first two; meant is a chain.

    >>> [auto_strength(kind) for kind in ("code", "dialogue", "random", "circular")]
    [0.25, 0.15, 0.0, 0.2]
    """
    return _STRENGTHS.get(content, 0.2)


def content_type(text: str) -> str:
    """A guess at what kind of content a text is, one of :data:`CONTENT`; the paper only takes it as given.

    Noise hardly deflates; most lines of code are indented, or begin or end as code does; most of dialogue
    begin with a speaker or a quotation mark; anything else is ``text``.

    >>> content_type("def f(x):\\n    return x\\n\\nprint(f(2))")
    'code'
    >>> content_type("ANNA: Are you there?\\nBEN: I am.")
    'dialogue'
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "text"
    data = text.encode()
    if len(data) >= _LEAST_BYTES and len(zlib.compress(data, 9)) / len(data) > _NOISE:
        return "random"
    if sum(bool(_SPEAKER.match(line)) for line in lines) > len(lines) / 2:
        return "dialogue"
    like_code = sum(bool(_CODE.search(line)) for line in lines)
    return "code" if like_code > len(lines) / 2 else "text"
