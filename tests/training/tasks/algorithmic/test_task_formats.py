"""Formats of the tasks: the paper's examples, generators against checkers, and the commands."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip.cli import cli
from pyanticip.errors import FormatError, OptionError
from training.tasks.algorithmic import TASKS, find, scan
from training.tasks.algorithmic.problem import END, SIZE, TOKENS, encode, split
from training.tasks.algorithmic.scan import convert, interpret

DRAWN = [name for name in TASKS if name != "scan-cot"]

GOLDENS = {
    "addition": "829+03=8008,2305,9009>859.",
    "copy": "8349216=8349216.",
    "reverse": "8349216=6129438.",
    "odds-first": "012345=135024.",
    "stack": "0110422=11020000.",
    "dyn-str-cpy": "5839472,3=39472.",
    "multiplication": "675x1259=675x[1*(1>1)(2>0)(5>0)(9>0)+2*(2>1)(5>0)(9>0)+5*(5>1)(9>0)+9*(9>1)].",
    "scan-cot": (
        "walk around left thrice and look opposite right = walk around left + walk around left + walk "
        "around left and look opposite right > walk around left : I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK "
        "I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK walk around left : I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK "
        "I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK walk around left : I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK "
        "I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK look opposite right : I_TURN_RIGHT I_TURN_RIGHT I_LOOK ."
    ),
}
"""The examples of the paper's tables 3 and 4."""


@pytest.mark.parametrize("name", TASKS)
def test_the_papers_example_is_right(name: str) -> None:
    find(name).check(GOLDENS[name])


@pytest.mark.parametrize("name", TASKS)
def test_every_changed_answer_token_is_found(name: str) -> None:
    task = find(name)
    tokens = split(GOLDENS[name], words=task.words)
    other = {"1": "0", "I_WALK": "I_RUN", "walk": "run", "left": "right"}
    start = tokens.index("=") + 1
    for place in range(start, len(tokens)):
        changed = [*tokens]
        changed[place] = other.get(tokens[place], "walk" if task.words else "1")
        if changed == tokens:
            continue
        with pytest.raises(FormatError):
            task.check((" " if task.words else "").join(changed))


@pytest.mark.parametrize("name", TASKS)
def test_missing_end_and_missing_tokens_are_found(name: str) -> None:
    task = find(name)
    tokens = split(GOLDENS[name], words=task.words)
    glue = " " if task.words else ""
    for broken in (tokens[:-1], [*tokens[:-2], END], [*tokens, END], [t for t in tokens if t != "="]):
        with pytest.raises(FormatError):
            task.check(glue.join(broken))


@pytest.mark.parametrize("name", DRAWN)
@settings(max_examples=40)
@given(length=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_drawn_examples_pass_the_checker(name: str, length: int, seed: int) -> None:
    task = find(name)
    example = task.draw(length, np.random.default_rng(seed))
    task.check(task.text(example))
    assert example.prompt[-1] == "="
    assert example.answer[-1] == "."
    assert len(example.tokens) <= task.tokens(length)
    if name in ("copy", "reverse", "odds-first", "stack", "multiplication"):
        assert len(example.tokens) == task.tokens(length)
    assert [TOKENS[number] for number in encode(example.tokens)] == list(example.tokens)


@settings(max_examples=40)
@given(length=st.integers(1, 40), seed=st.integers(0, 2**32 - 1), place=st.integers(0, 10_000))
@pytest.mark.parametrize("name", DRAWN)
def test_one_wrong_digit_fails_the_checker(name: str, length: int, seed: int, place: int) -> None:
    task = find(name)
    example = task.draw(length, np.random.default_rng(seed))
    answer = list(example.answer)
    at = [i for i, token in enumerate(answer) if token.isdigit()]
    spot = at[place % len(at)]
    answer[spot] = str((int(answer[spot]) + 1 + place % 9) % 10)
    with pytest.raises(FormatError):
        task.check("".join((*example.prompt, *answer)))


@settings(max_examples=100)
@given(a=st.integers(0, 10**30), b=st.integers(0, 10**30))
def test_addition_judges_any_two_numbers(a: int, b: int) -> None:
    left, right = str(a)[::-1], str(b)[::-1]
    steps, carry, size = [], 0, max(len(left), len(right))
    for x, y in zip(left.ljust(size, "0"), right.ljust(size, "0"), strict=True):
        total = int(x) + int(y) + carry
        carry = int(total > 9)
        steps.append(f"{x}{y}{carry}{total % 10}")
    total_text = str(a + b)[::-1].ljust(size, "0")
    find("addition").check(f"{left}+{right}={','.join(steps)}>{total_text}.")


def test_popping_an_empty_stack_does_nothing() -> None:
    task = find("stack")
    task.check("122=2000.")
    task.check("1223=02000.")


def test_a_shifted_copy_is_wrong() -> None:
    with pytest.raises(FormatError, match="answer must be"):
        find("dyn-str-cpy").check("5839472,3=3947.")
    with pytest.raises(FormatError, match="occurrences of 3"):
        find("dyn-str-cpy").check("5339472,3=339472.")


VERB = st.sampled_from(["walk", "look", "run", "jump"])
SIDE = st.sampled_from(["left", "right"])
TURN = st.tuples(st.one_of(VERB, st.just("turn")), st.sampled_from(["", "around ", "opposite "]), SIDE)
BODY = st.one_of(VERB, TURN.map(lambda t: f"{t[0]} {t[1]}{t[2]}"))
CLAUSE = st.tuples(BODY, st.sampled_from(["", " twice", " thrice"])).map("".join)
COMMAND = st.one_of(CLAUSE, st.tuples(CLAUSE, st.sampled_from([" and ", " after "]), CLAUSE).map("".join))


@settings(max_examples=60)
@given(command=COMMAND)
def test_any_scan_command_converts_and_passes_the_checker(command: str) -> None:
    task = find("scan-cot")
    example = convert(command)
    task.check(task.text(example))
    words = command.split()
    joint = next((w for w in ("and", "after") if w in words), None)
    parts = [words] if joint is None else [words[: words.index(joint)], words[words.index(joint) + 1 :]]
    done = [action for part in (parts[::-1] if joint == "after" else parts) for action in interpret(part)]
    assert [token for token in example.answer if token.startswith("I_")] == done


@pytest.mark.parametrize("part", ["train", "test"])
def test_scan_examples_are_the_length_split(part, data_dir, monkeypatch):
    monkeypatch.setenv("PYANTICIP_DATA", str(data_dir))
    if not (scan.scan_folder() / scan.FILES[part]).is_file():
        pytest.skip("the length split of SCAN is not in the data folder")
    scan.corpus.cache_clear()
    task, count = find("scan-cot"), 0
    for length, pairs in scan.corpus(part).items():
        for number, (command, actions) in enumerate(pairs):
            example = convert(command)
            assert [t for t in example.answer if t.startswith("I_")] == actions.split()
            assert len(actions.split()) == length
            if number % 20 == 0:
                task.check(task.text(example))
            count += 1
    assert count == {"train": 16990, "test": 3920}[part]
    # No command has twice the 22 actions of the longest training command.
    assert task.longer(22) == 48
    scan.corpus.cache_clear()


def test_missing_scan_is_one_clear_line(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYANTICIP_DATA", str(tmp_path))
    scan.corpus.cache_clear()
    with pytest.raises(FormatError, match="needs the length split of SCAN in"):
        find("scan-cot").draw(5, np.random.default_rng(0))
    scan.corpus.cache_clear()


def test_the_vocabulary_is_64_for_all_tasks() -> None:
    assert len(set(TOKENS)) == len(TOKENS) <= SIZE == 64
    assert len(find("copy").lengths(10)) == 9
    assert max(find("copy").lengths(10)) == 150
    assert find("copy").longer(10) == 20


def test_bad_names_and_lengths_are_refused() -> None:
    with pytest.raises(OptionError, match="unknown task 'revers'; did you mean reverse"):
        find("revers")
    with pytest.raises(OptionError, match="shortest length is 1, got 0"):
        find("copy").draw(0, np.random.default_rng(0))
    with pytest.raises(FormatError, match="token 2: 'q'"):
        find("copy").check("1q=1q.")


def test_commands(tmp_path: Path) -> None:
    def call(*given: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["tasks", *given])
        return done.exit_code, done.output

    code, text = call("list", "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(text)["tasks"]] == list(TASKS)
    assert "829+03=8008,2305,9009>859." in call("list")[1]
    code, text = call("show", "reverse", "--length", "12", "--count", "3", "--json")
    found = json.loads(text)["examples"]
    assert [len(each) for each in found] == [26] * 3
    assert call("check", "reverse", *found)[1] == "right\n" * 3
    code, text = call("check", "reverse", "12=12.")
    assert (code, text) == (1, "reverse: digit 1 must be '2', found '1'\n")
    settings = ("validate_every=2", "valid_samples=4", "model.d_model=8", "model.heads=1")
    train_it = (
        *("train", "--out", str(tmp_path / "runs"), "--task", "copy", "--positions", "none"),
        *("--longest", "2", "--steps", "2", "--batch", "2", "--threads", "1"),
        *(word for each in settings for word in ("--set", each)),
        "--json",
    )
    code, text = call(*train_it)
    assert code == 0
    assert json.loads(text[text.index("{") :])["finished"]
    code, text = call("evaluate", str(tmp_path / "runs"), "--lengths", "2,4", "--samples", "8")
    assert code == 0
    assert "copy-none-0" in text
    assert "last" in text
    for wrong, message in (
        (("show", "adition"), "did you mean addition"),
        ((*train_it[:-1], "--set", "seed=3"), "has an option of its own, --seeds"),
        ((*train_it[:-1], "--set", "schedule.seed=3"), "has an option of its own, --seeds"),
        ((*train_it[:-1], "--set", "steps=3"), "given twice"),
        (("train", "--out", "x", "--task", "copy", "--positions", "ropes"), "did you mean rope"),
    ):
        outcome = CliRunner().invoke(cli, ["tasks", *wrong])
        assert isinstance(outcome.exception, OptionError)
        assert message in str(outcome.exception)
