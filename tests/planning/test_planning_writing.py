"""Scores of generated text, files of the three tasks, and writing with plans."""

import json

import pytest
import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import BaselineTransformer, ModelConfig, save_checkpoint
from training.planning import metrics, writing
from training.planning.tasks_text import Item, read_items
from training.tasks.token.tokens import characters

# From rouge_score 0.1.2, RougeScorer(["rougeL"]), F-measure.
GOLDEN = [
    ("A dog runs in the park.", "The dog is running through the park, fast!", 0.428571),
    ("the quick brown fox", "the lazy quick dog jumps over the brown log and a fox", 0.5),
    ("one two three four five", "five four three two one", 0.2),
    ("It's 3 o'clock; rock-n-roll", "it s 3 o clock rock n roll", 1.0),
    ("", "anything", 0.0),
    ("zebra", "anything at all", 0.0),
]

STORIES = (
    "storyid,storytitle,sentence1,sentence2,sentence3,sentence4,sentence5\n"
    'a1,The ball,Tom had a ball.,"He threw it, far.",A dog ran.,It caught it.,Tom laughed.\n'
    "a2,Rain,It rained.,Ann stayed in.,She read.,The sun came.,She went out.\n"
)
CONCEPTS = [
    {"concept_set": "dog#throw#ball", "scene": ["A man throws a ball to his dog.", "The dog gets the ball."]},
    {"concepts": ["cat", "sit"], "target": "The cat sat down."},
]
QUESTIONS = [
    {"title": "Why is the sky blue?", "answers": {"text": ["Light scatters.", "Air scatters blue light."]}},
    {"input": "Why do cats purr?", "output": [{"answer": "They are happy."}, {"meta": 1}]},
]


@pytest.fixture(name="files")
def files_fixture(tmp_path):
    (tmp_path / "stories.csv").write_text(STORIES)
    for name, rows in (("concepts.jsonl", CONCEPTS), ("questions.jsonl", QUESTIONS)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory):
    """A checkpoint of a small model that plans, over characters."""
    torch.manual_seed(0)
    tokenizer = characters([STORIES, json.dumps(CONCEPTS), json.dumps(QUESTIONS)])
    cfg = ModelConfig.small(
        d_model=16, heads=2, fast_layers=1, slow_layers=1, ff=16, vocab=tokenizer.vocab, max_seq_len=64,
        dropout=0.0, planning=True, plan_tokens=5,
    )  # fmt: skip
    model = BaselineTransformer(cfg, matched=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("writer") / "model"
    return save_checkpoint(folder, model, tokenizer=tokenizer.to_json())


@pytest.mark.parametrize(("candidate", "reference", "wanted"), GOLDEN)
def test_rouge_is_that_of_the_usual_package(candidate, reference, wanted):
    assert metrics.rouge_l(candidate, [reference]) == pytest.approx(wanted, abs=1e-6)
    assert metrics.rouge_l(candidate, ["nothing of it", reference]) == pytest.approx(wanted, abs=1e-6)


def test_coverage_finds_forms_of_words():
    text = "The children were running and threw balls; a happily tied pony stopped, making noise."
    for concept in ("child", "run", "throw", "ball", "tie", "pony", "stop", "make", "happily"):
        assert metrics.coverage(text, [concept]) == 1.0, concept
    for concept in ("catch", "rune", "tide", "no", "on"):
        assert metrics.coverage(text, [concept]) == 0.0, concept
    assert metrics.coverage(text, ["run", "ball", "cow", "sky"]) == 0.5
    assert metrics.coverage("an ice cream", ["ice cream", "ice tea"]) == 0.5
    assert metrics.coverage(text, []) == 1.0


def test_files_of_the_tasks_are_read(files):
    stories = read_items("rocstories", files / "stories.csv")
    assert stories[0] == Item(
        "Tom had a ball.", references=("He threw it, far. A dog ran. It caught it. Tom laughed.",)
    )
    concepts = read_items("commongen", files / "concepts.jsonl")
    assert concepts[0].concepts == ("dog", "throw", "ball")
    assert concepts[0].prompt == "dog, throw, ball:"
    assert len(concepts[0].references) == 2
    assert concepts[1].references == ("The cat sat down.",)
    questions = read_items("eli5", files / "questions.jsonl", limit=1)
    assert questions == [
        Item("Why is the sky blue?", references=("Light scatters.", "Air scatters blue light."))
    ]
    assert read_items("eli5", files / "questions.jsonl")[1].references == ("They are happy.",)


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        ("commongen", "{]\n", ":1: not JSON"),
        ("commongen", '{"concepts": ["a"], "target": "b"}\n[1]\n', ":2: expected an object, given list"),
        ("eli5", '{"answers": []}\n', ":1: not an item of eli5: misses 'title'"),
        ("commongen", '{"concept_set": "a##b"}\n', "concept: expected text, given ''"),
        ("rocstories", "sentence1\nOne.\n", "misses 'sentence2'"),
        ("rocstories", "", "no items of rocstories"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, task, text, words):
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_items(task, file)
    assert words in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_writing_is_what_the_model_says(folder):
    writer = writing.load_writer(str(folder))
    prompt = writer.encode("Tom had a")
    said = writing.write(writer, prompt, tokens=6)
    assert said == writing.write(writer, prompt, tokens=6)
    ids = torch.tensor([[*prompt, *said]])
    logits = writer.model(ids[:, :-1]).logits[0, len(prompt) - 1 :]
    assert logits.argmax(-1).tolist() == said
    one, other = (writing.write(writer, prompt, tokens=12, temperature=1.0, seed=s) for s in (0, 1))
    assert one != other
    long = writing.write(writer, prompt * 10, tokens=3)
    assert len(long) == 3


def test_wishes_reach_the_plans(folder):
    writer = writing.load_writer(str(folder))
    wish = writer.encode("T")[0]
    boost = torch.zeros(writer.model.cfg.vocab)
    boost[wish] = writing.BOOST
    ids = torch.tensor([writer.encode("Tom had")])
    plan = writer.model(ids, boost=boost).plan
    assert bool(((plan.codes[:, 1:] == wish) & (plan.weights[:, 1:] > 0)).any(-1).all())
    found = [
        writing.write(writer, ids[0].tolist(), tokens=20, temperature=1.0, wishes=wishes)
        for wishes in ([], writer.encode("xyz"))
    ]
    assert found[0] != found[1]


@torch.no_grad()
def test_surprise_is_the_judges_cross_entropy(folder):
    judge = writing.load_writer(str(folder))
    nats, count = writing.surprise(judge, "Tom had", " a ball")
    ids = torch.tensor([judge.encode("Tom had a ball")])
    shares = judge.model(ids[:, :-1]).logits.log_softmax(-1)
    taken = shares[0].gather(-1, ids[0, 1:, None])[len("Tom had") - 1 :]
    assert count == len(" a ball")
    assert nats == pytest.approx(-float(taken.sum()), rel=1e-5)


def test_steering_needs_a_model_that_plans(tmp_path):
    tokenizer = characters(["abc "])
    cfg = ModelConfig.small(
        d_model=16, heads=2, fast_layers=1, slow_layers=0, ff=16, vocab=tokenizer.vocab, max_seq_len=16
    )
    folder = save_checkpoint(
        tmp_path / "plain", BaselineTransformer(cfg, matched=False), tokenizer=tokenizer.to_json()
    )
    writer = writing.load_writer(str(folder))
    with pytest.raises(OptionError, match="makes no plans"):
        writing.evaluate(writer, writer, [Item("a", ("b",))], steer=True)
    save_checkpoint(tmp_path / "bare", BaselineTransformer(cfg, matched=False))
    with pytest.raises(OptionError, match="has no tokenizer"):
        writing.load_writer(str(tmp_path / "bare"))
