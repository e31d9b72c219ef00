"""The codebook of motion frames."""

import pytest
import torch

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.parts.planning.codebook import PlanCodebook


def frames(groups, each, seed=0):
    """Feature rows around a few poses, one group after the other."""
    generator = torch.Generator().manual_seed(seed)
    poses = torch.randn(groups, 231, generator=generator)
    noise = 0.05 * torch.randn(groups * each, 231, generator=generator)
    return poses.repeat_interleave(each, 0) + noise


def test_frames_of_one_pose_share_a_code_and_those_of_others_do_not():
    rows = frames(6, 40)
    book = PlanCodebook(6)
    left = book.fit(rows)
    assert left < 0.02
    codes = book(rows).view(6, 40)
    assert bool((codes == codes[:, :1]).all())
    assert len(set(codes[:, 0].tolist())) == 6
    assert book.counts(rows).tolist() == [40] * 6
    assert torch.equal(book(rows.view(2, 120, 231)), book(rows).view(2, 120))
    # The definition: the nearest centre.
    found = torch.cdist(book.points(rows), book.centres).argmin(-1)
    assert torch.equal(book(rows), found)


def test_more_codes_describe_frames_better_and_the_seed_decides():
    rows = torch.randn(400, 231)
    errors = [PlanCodebook(count).fit(rows) for count in (2, 16, 128)]
    assert errors[0] > errors[1] > errors[2]
    books = [PlanCodebook(16) for _ in range(3)]
    for book, seed in zip(books, (5, 5, 6), strict=True):
        book.fit(rows, seed=seed)
    assert torch.equal(books[0].centres, books[1].centres)
    assert not torch.equal(books[0].centres, books[2].centres)


def test_direction_of_the_hips_scalars_and_mask_do_not_matter():
    rows = frames(4, 20)
    book = PlanCodebook(4)
    book.fit(rows)
    other = rows.clone()
    other[:, :6] += 3.0
    other[:, 198:227] -= 2.0
    assert torch.equal(book(rows), book(other))


def test_equal_frames_make_no_trouble():
    rows = torch.ones(20, 231)
    book = PlanCodebook(3)
    book.fit(rows)
    assert bool(torch.isfinite(book.centres).all())
    assert book(rows).tolist() == [book(rows)[0].item()] * 20


def test_bad_frames_are_refused():
    with pytest.raises(OptionError, match="8 codes needs as many frames, got 5"):
        PlanCodebook(8).fit(torch.randn(5, 231))
    with pytest.raises(ShapeError, match=r"finite \(N, 231\)"):
        PlanCodebook(2).fit(torch.randn(5, 12))
