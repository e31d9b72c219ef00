"""How generated text is scored: the longest common subsequence with a reference, and which words it has."""

import re
from collections.abc import Sequence

_WORD = re.compile(r"[a-z0-9]+")

_IRREGULAR = {
    "sat": "sit", "ran": "run", "ate": "eat", "eaten": "eat", "went": "go", "gone": "go", "held": "hold",
    "stood": "stand", "threw": "throw", "thrown": "throw", "caught": "catch", "took": "take", "taken": "take",
    "gave": "give", "given": "give", "made": "make", "rode": "ride", "ridden": "ride", "drove": "drive",
    "driven": "drive", "wore": "wear", "worn": "wear", "swam": "swim", "swum": "swim", "sang": "sing",
    "sung": "sing", "spoke": "speak", "spoken": "speak", "wrote": "write", "written": "write",
    "laid": "lay", "lay": "lie", "hung": "hang", "fed": "feed", "led": "lead", "blew": "blow",
    "blown": "blow", "drew": "draw", "drawn": "draw", "flew": "fly", "flown": "fly", "left": "leave",
    "built": "build", "bought": "buy", "brought": "bring", "kept": "keep", "slept": "sleep", "swept": "sweep",
    "men": "man", "women": "woman", "children": "child", "people": "person", "feet": "foot",
    "teeth": "tooth", "mice": "mouse", "knives": "knife", "leaves": "leaf",
}  # fmt: skip


def words(text: str) -> list[str]:
    """Runs of letters a to z and digits, in lower case: the words that ROUGE is usually computed over."""
    return _WORD.findall(text.lower())


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for mine in one:
        left = 0
        for j, theirs in enumerate(other):
            above = row[j + 1]
            row[j + 1] = left + 1 if mine == theirs else max(above, row[j])
            left = above
    return row[-1]


def rouge_l(candidate: str, references: Sequence[str]) -> float:
    """ROUGE-L (Lin 2004), the F-measure with equal weights, against whichever reference is nearest.

    Without stemming; the same number as ``rouge_score`` gives for ``rougeL``.

    >>> round(rouge_l("the cat sat", ["the cat is here"]), 4)
    0.5714
    """
    best = 0.0
    mine = words(candidate)
    for reference in references:
        theirs = words(reference)
        shared = common(mine, theirs)
        if shared:
            precision, recall = shared / len(mine), shared / len(theirs)
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


def coverage(text: str, concepts: Sequence[str]) -> float:
    """The share of concepts of which some form occurs in the text: regular endings (-s, -es, -ies, -ed, -ing,
    -er, -ly, doubled consonants, a dropped e) and common irregular forms. A concept of several words needs
    all.

    >>> coverage("Two dogs were running.", ["dog", "run", "cat"])
    0.6666666666666666
    """
    if not concepts:
        return 1.0
    found: set[str] = set()
    for word in words(text):
        found |= stems(word)
    met = [all(stems(part) & found for part in words(concept)) for concept in concepts]
    return sum(met) / len(met)


def stems(word: str) -> set[str]:
    """What a word may be a form of, itself included."""
    found = {word}
    if word in _IRREGULAR:
        found.add(_IRREGULAR[word])
    for ending in ("ies", "ied", "ier"):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            found.add(word[: -len(ending)] + "y")
    for ending in ("s", "es", "d", "ed", "ing", "r", "er", "ly"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2:
            found |= {stem, stem + "e"} if ending in ("ed", "ing", "er") else {stem}
            if ending in ("ed", "ing", "er") and len(stem) > 3 and stem[-1] == stem[-2]:
                found.add(stem[:-1])
    return found
