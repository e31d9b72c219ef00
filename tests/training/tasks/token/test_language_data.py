"""Synthetic sequences, tokenizers, corpora, windows and batches."""

import numpy as np
import pytest
from support.full_disk import full_disk

from pyanticip.errors import CheckpointError, DeviceError, FormatError, OptionError
from training.tasks.token.corpus import Corpus, read_lines
from training.tasks.token.options import LanguageOptions
from training.tasks.token.synthetic import CONVERGE, MOTIF, PADDING, RANDOM, synthetic
from training.tasks.token.tokens import Tokenizer, byte_pairs, characters, learn
from training.tasks.token.windows import Batches, Windows, synthetic_data

TEXT = "".join(f"line {n}: The quick brown fox jumps – über den Hund №{n % 7}.\n" for n in range(400))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_three_phases_are_what_they_say():
    vocab, drawn = 1000, synthetic(1000, 96, 500, seed=3)
    motifs, repeats, randoms = set(), set(), set()
    for ids, phases in zip(drawn.ids, drawn.phases, strict=True):
        assert (np.diff(phases) >= 0).all()
        counts = np.bincount(phases, minlength=4)
        assert counts[CONVERGE] == 10
        assert counts[PADDING] == 96 - counts[:3].sum() > 0
        motif = ids[phases == MOTIF]
        periods = [p for p in range(3, 8) if len(motif) % p == 0 and (motif[p:] == motif[:-p]).all()]
        assert periods, motif
        motifs.add(periods[0])
        repeats.add(len(motif) // periods[0])
        randoms.add(int(counts[RANDOM]))
        converging = ids[phases == CONVERGE]
        spread = np.maximum(1, vocab >> np.arange(10))
        # All ten are within their noise of one centre, modulo the vocabulary.
        apart = np.abs((converging - converging[-1] + vocab // 2) % vocab - vocab // 2)
        assert (apart <= spread + 1).all()
    assert motifs == {3, 4, 5, 6, 7}
    assert repeats == {2, 3, 4}
    assert randoms == set(range(5, 15))
    assert drawn.ids.min() >= 0
    assert drawn.ids.max() < vocab
    assert np.bincount(drawn.ids[drawn.phases == PADDING], minlength=vocab).max() < 60


def test_synthetic_sequences_follow_the_seed_and_validation_has_another():
    assert (synthetic(50, 20, 8, 1).ids == synthetic(50, 20, 8, 1).ids).all()
    assert (synthetic(50, 20, 8, 1).ids != synthetic(50, 20, 8, 2).ids).any()
    data = synthetic_data(LanguageOptions(seq_len=24, train_sequences=64, valid_windows=64), vocab=1000)
    train = {row.tobytes() for row in data.train.take(np.arange(64))}
    assert not train & {row.tobytes() for row in data.valid.take(np.arange(64))}
    with pytest.raises(OptionError, match="length must be at least 2, got 1"):
        synthetic(50, 1, 8, 0)
    assert (synthetic(50, 40, 8, 1, repeats=(1, 1)).phases == RANDOM).any()
    for repeats in ((0, 1), (2, 1)):
        with pytest.raises(OptionError, match="repeats must be 1 <= least <= most"):
            synthetic(50, 40, 8, 0, repeats=repeats)


def test_characters_round_trip_and_agree_with_the_saved_tokenizer(tmp_path):
    tokenizer = characters([TEXT])
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.vocab == len(set(TEXT)) + 1
    assert ids.tolist() == tokenizer.backend.encode(TEXT).ids
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.load(path)
    assert (again.encode(TEXT) == ids).all()
    assert again.decode(again.encode("qu\u4e01\U0001f600x\t")) == "qu<unk><unk>x<unk>"


def test_a_small_vocabulary_keeps_the_most_frequent_characters():
    tokenizer = characters(["aaabbc\n"], vocab=3)
    assert tokenizer.encode("cab\n").tolist() == [0, 1, 2, 0]
    assert tokenizer.decode([2]) == "b"


def test_byte_pairs_know_every_text_and_are_the_same_each_time(tmp_path):
    first, second = (byte_pairs([TEXT], 300) for _ in range(2))
    assert first.vocab == 300
    assert first.to_json() == second.to_json()
    other = "something \u4e01 else\r\n\ttoo \U0001f600"
    assert first.decode(first.encode(other)) == other
    assert len(first.encode(TEXT)) < len(TEXT) // 2
    path = tmp_path / "tokenizer.json"
    path.write_text(first.to_json(), encoding="utf-8")
    assert (Tokenizer.load(path).encode(TEXT) == first.encode(TEXT)).all()


def test_vocabularies_that_are_too_small_and_files_that_are_no_tokenizer(tmp_path):
    with pytest.raises(OptionError, match=r"more than 256 tokens.*got 256"):
        learn("bpe", [TEXT], 256)
    with pytest.raises(OptionError, match="at least 2 tokens, got 1"):
        learn("char", [TEXT], 1)
    path = tmp_path / "tokenizer.json"
    with pytest.raises(FormatError, match=r"tokenizer\.json: no such file"):
        Tokenizer.load(path)
    path.write_text("{}")
    with pytest.raises(FormatError, match=r"tokenizer\.json: not a tokenizer"):
        Tokenizer.load(path)


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_a_corpus_streams_to_the_tokens_of_its_lines(text, tmp_path, kind):
    tokenizer = learn(kind, read_lines(text), 0 if kind == "char" else 400)
    corpus = Corpus.encode(text, tokenizer, tmp_path / "data", "train")
    assert corpus.tokens.dtype == np.uint16
    assert tokenizer.decode(corpus.tokens) == TEXT
    assert (np.asarray(corpus.tokens) == tokenizer.encode_pieces(TEXT.splitlines(keepends=True))).all()
    assert [path.name for path in (tmp_path / "data").iterdir()] == [corpus.file.name]
    stamp = corpus.file.stat().st_mtime_ns
    assert Corpus.encode(text, tokenizer, tmp_path / "data", "train").file.stat().st_mtime_ns == stamp
    text.write_text(TEXT + "!", encoding="utf-8")
    assert Corpus.encode(text, tokenizer, tmp_path / "data", "train").file != corpus.file
    corpus.file.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"train-.*\.npy: the tokens of a text cannot be read"):
        Corpus.open(corpus.file, "a text", "")


@pytest.mark.parametrize("room", [0, 200])
def test_on_a_full_disk_no_tokens_are_left(text, tmp_path, room):
    tokenizer = characters([TEXT])
    with full_disk(room), pytest.raises(DeviceError, match=r"\.npy: cannot be written \(file too large\)"):
        Corpus.encode(text, tokenizer, tmp_path / "data", "train")
    assert not list((tmp_path / "data").iterdir())


def test_lines_longer_than_a_block_and_characters_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("training.tasks.token.corpus._BLOCK", 7)
    path = tmp_path / "text.txt"
    path.write_text("\ufeff" + TEXT, encoding="utf-8")
    assert "".join(read_lines(path)) == TEXT


def test_bad_text_is_named_with_file_and_byte(tmp_path, monkeypatch):
    monkeypatch.setattr("training.tasks.token.corpus._BLOCK", 4)
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"abcdef" + "ü".encode() + "ü".encode("latin-1") + b"xyz")
    with pytest.raises(FormatError, match=r"latin1\.txt: not UTF-8 at byte 8"):
        list(read_lines(path))
    path.write_bytes(b"abcdefg" + "ü".encode()[:1])
    with pytest.raises(FormatError, match="not UTF-8 at byte 7: unexpected end"):
        list(read_lines(path))
    with pytest.raises(FormatError, match=r"nowhere\.txt: no such file"):
        list(read_lines(tmp_path / "nowhere.txt"))
    path.write_bytes(b"")
    with pytest.raises(FormatError, match=r"latin1\.txt: empty"):
        Corpus.encode(path, characters(["ab"]), tmp_path / "data", "train")
    assert list((tmp_path / "data").iterdir()) == []


def test_windows_share_one_token_and_cover_the_stream():
    windows = Windows(np.arange(100, dtype=np.uint16), 9)
    assert len(windows) == 11
    taken = windows.take(np.arange(11))
    assert (taken[:-1, -1] == taken[1:, 0]).all()
    assert (taken[:, :-1].ravel() == np.arange(99)).all()
    assert windows.spread(4).tolist() == [0, 2, 5, 8]
    assert windows.spread(99).tolist() == list(range(11))
    with pytest.raises(OptionError, match=r"book\.txt: has 9 tokens, a window needs 10"):
        Windows(np.arange(9), 9, "book.txt")


def test_batches_follow_the_step_alone_and_every_epoch_sees_every_window():
    options = LanguageOptions(steps=12, batch=6, seq_len=4, own_scalars=0.9, sampling_unit="position", seed=5)
    windows = Windows(np.arange(45), 4)  # 11 windows: epochs end within batches
    whole = list(Batches(windows, options))
    assert len(whole) == 12
    firsts = np.concatenate([batch.ids[:, 0].numpy() for batch in whole]) // 4
    for epoch in range(6):
        assert sorted(firsts[11 * epoch : 11 * epoch + 11]) == list(range(11))
    assert (firsts[:11] != firsts[11:22]).any()
    resumed = list(Batches(windows, options, start=7))
    for one, two in zip(whole[7:], resumed, strict=True):
        assert (one.ids == two.ids).all()
        assert (one.predicted == two.predicted).all()
        assert one.step == two.step
    shares = [float(batch.predicted.float().mean()) for batch in whole]
    assert shares[0] == 0.0
    assert shares[-1] > 0.6


def test_processes_and_parts_share_a_batch_out():
    options = LanguageOptions(steps=3, batch=8, seq_len=4, accumulate=2, own_scalars=0.5)
    windows = Windows(np.arange(80), 4)
    alone = Batches(windows, options.replace(accumulate=1))
    pair = [list(Batches(windows, options, rank=rank, world=2)) for rank in range(2)]
    assert [len(each) for each in pair] == [6, 6]
    for step in range(3):
        ids, predicted = alone.update(step)
        parts = [pair[rank][2 * step + part] for part in range(2) for rank in range(2)]
        assert (np.concatenate([part.ids for part in parts]) == ids).all()
        assert (np.concatenate([part.predicted for part in parts]) == predicted).all()
    with pytest.raises(OptionError, match="multiple of processes times accumulate = 6, got 8"):
        Batches(windows, options, world=3)
