"""What commitment says of sequences before any training."""

import numpy as np

from training.study.foretelling import foretelling, recalled


def test_recalled_is_what_the_last_visit_continued_with():
    rng = np.random.default_rng(0)
    ids = rng.integers(4, size=(6, 30))
    found = recalled(ids)
    for row in range(6):
        for t in range(29):
            visits = [s for s in range(t) if ids[row, s] == ids[row, t]]
            expected = bool(visits) and ids[row, visits[-1] + 1] == ids[row, t + 1]
            assert found[row, t] == expected


def test_two_neighbours_foretell_and_eight_mislead():
    rows = foretelling(sequences=60, neighbours=(2, 8))
    chained = {row["neighbours"]: row["commitment"] for row in rows if "4 to 9" in row["data"]}
    assert chained[2]["high"] < -0.3
    assert chained[8]["low"] > 0.0
