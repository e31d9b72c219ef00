"""Adding, removing, renaming, re-dimensioning, undoing and fitting in any order never loses earlier work."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.clips import LEFT_ARM, RIGHT_ARM, swing

from pyanticip.errors import OptionError
from pyanticip.teach.frames import body
from pyanticip.teach.mapping import load_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import MAPPING, MAPPINGS, Project
from realtime.teaching.fitting import fit_project

CLIPS = [swing(0.8, joint=joint, seed=seed) for joint in (LEFT_ARM, RIGHT_ARM) for seed in range(2)]
ROWS = body(CLIPS[0].features())
NAMES = st.sampled_from(["a", "b", "c", "d", "pan"])


class Teaching(RuleBasedStateMachine):
    """A model of the project in plain dictionaries, beside the one on disk."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.project = Project.create(self.folder / "p", (Output("a"),))
        self.outputs: dict[str, tuple[float, float]] = {"a": (0.0, 1.0)}
        self.takes: dict[str, dict[str, float]] = {}
        self.past: list[tuple[dict[str, tuple[float, float]], dict[str, dict[str, float]]]] = []
        self.mappings: dict[str, bytes] = {}
        self.said: dict[str, np.ndarray] = {}

    def remember(self) -> None:
        self.past.append((dict(self.outputs), {name: dict(v) for name, v in self.takes.items()}))

    @rule(name=NAMES)
    def add_output(self, name: str) -> None:
        if name in self.outputs:
            try:
                self.project.add_output(Output(name))
            except OptionError:
                return
            raise AssertionError("an output was added twice")
        self.remember()
        self.project.add_output(Output(name))
        self.outputs[name] = (0.0, 1.0)

    @precondition(lambda self: self.outputs)
    @rule(data=st.data())
    def remove_output(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.outputs)))
        self.remember()
        self.project.remove_output(name)
        del self.outputs[name]
        for values in self.takes.values():
            values.pop(name, None)

    @precondition(lambda self: self.outputs)
    @rule(data=st.data(), new=NAMES)
    def rename_output(self, data: st.DataObject, new: str) -> None:
        old = data.draw(st.sampled_from(sorted(self.outputs)))
        if new in self.outputs or (new == "pan" and self.outputs[old] != (0.0, 1.0)):
            return
        self.remember()
        self.project.rename_output(old, new)
        self.outputs[new] = self.outputs.pop(old)
        for values in self.takes.values():
            if old in values:
                values[new] = values.pop(old)

    @precondition(lambda self: set(self.outputs) - {"pan"})
    @rule(data=st.data(), low=st.integers(-3, 0), high=st.integers(1, 9))
    def redimension(self, data: st.DataObject, low: int, high: int) -> None:
        name = data.draw(st.sampled_from(sorted(set(self.outputs) - {"pan"})))
        self.remember()
        self.project.change_output(name, low=float(low), high=float(high))
        self.outputs[name] = (low, high)

    @precondition(lambda self: self.outputs)
    @rule(data=st.data(), clip=st.sampled_from(range(len(CLIPS))), part=st.floats(0, 1))
    def add_take(self, data: st.DataObject, clip: int, part: float) -> None:
        name = f"take {data.draw(st.integers(0, 4))}"
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.outputs)), min_size=1))
        values = {o: self.outputs[o][0] + part * (self.outputs[o][1] - self.outputs[o][0]) for o in chosen}
        values = {o: min(max(v, self.outputs[o][0]), self.outputs[o][1]) for o, v in values.items()}
        if name in self.takes:
            return
        self.remember()
        self.project.add_take(name, CLIPS[clip], values=values)
        self.takes[name] = values

    @precondition(lambda self: self.takes)
    @rule(data=st.data())
    def remove_take(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.takes)))
        self.remember()
        self.project.remove_take(name)
        del self.takes[name]

    @precondition(lambda self: self.takes)
    @rule(data=st.data())
    def rename_take(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(sorted(self.takes)))
        new = f"renamed {len(self.past)}"
        self.remember()
        self.project.rename_take(old, new)
        self.takes[new] = self.takes.pop(old)

    @rule()
    def undo(self) -> None:
        if not self.past:
            try:
                self.project.undo()
            except OptionError:
                return
            raise AssertionError("nothing was there to undo")
        self.project.undo()
        self.outputs, self.takes = self.past.pop()

    @rule()
    def open_again(self) -> None:
        self.project = Project.open(self.project.folder)

    @rule(kind=st.sampled_from(["ridge", "knn"]))
    def fit(self, kind: str) -> None:
        taught = {name for values in self.takes.values() for name in values}
        current = self.project.folder / MAPPING
        before = current.read_bytes() if current.exists() else None
        try:
            fit_project(self.project.folder, FitOptions(kind=kind, inputs=("body",)), model=False)
        except OptionError:
            assert not taught
            assert (current.read_bytes() if current.exists() else None) == before
            return
        assert taught
        mapping = load_mapping(current)
        assert [o.name for o in mapping.outputs] == [n for n in self.order() if n in taught]
        for path in (self.project.folder / MAPPINGS).iterdir():
            if path.name not in self.mappings:
                self.mappings[path.name] = path.read_bytes()
                self.said[path.name] = load_mapping(path).apply_batch({"body": ROWS})
        assert current.read_bytes() in self.mappings.values()

    def order(self) -> list[str]:
        return [output.name for output in self.project.state.outputs]

    @invariant()
    def what_is_on_disk_is_what_was_done(self) -> None:
        if not hasattr(self, "project"):
            return
        found = Project.open(self.project.folder)
        assert {o.name: (o.low, o.high) for o in found.state.outputs} == self.outputs
        assert {take.name: dict(take.values) for take in found.state.takes} == self.takes
        assert found.problems() == []

    @invariant()
    def earlier_mappings_are_untouched(self) -> None:
        if not hasattr(self, "project"):
            return
        for name, data in self.mappings.items():
            path = self.project.folder / MAPPINGS / name
            assert path.read_bytes() == data
            assert np.array_equal(load_mapping(path).apply_batch({"body": ROWS}), self.said[name])

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


TestTeaching = Teaching.TestCase
TestTeaching.settings = settings(
    max_examples=12, stateful_step_count=20, suppress_health_check=list(HealthCheck)
)
