"""Training a token model that plans: simulated plans in training, its own when it is judged."""

import os
import signal

import torch
from torch.nn import functional as F

from training.run.train import train
from training.tasks.token.module import LanguageModule, forward_losses, new_model
from training.tasks.token.task import LanguageTask, load_run
from training.tasks.token.windows import Batches

PLANNING = {"planning": True, "plan_tokens": 4}


def test_a_model_that_plans_trains_and_goes_on(tiny, tmp_path, monkeypatch):
    options = tiny(model=PLANNING)
    report = train(LanguageTask(), options, tmp_path / "whole")
    model, *_ = load_run(tmp_path / "whole", "last")
    start = new_model(options, 50)
    changed = {
        name.split(".")[0]
        for name, value in model.planning.state_dict().items()
        if not torch.equal(value, start.planning.state_dict()[name])
    }
    assert changed == {"anticipator", "simulator", "future", "log_frequency"}
    assert abs(float(model.planning.log_frequency.double().exp().sum()) - 1.0) < 1e-4
    assert report["finished"]
    assert report["best_perplexity"] > 1.0

    # Interrupted after some updates and resumed, it ends with the same weights.
    take, sent = Batches.update, []

    def update(self, step):
        if step == 6 and not sent:
            sent.append(step)
            os.kill(os.getpid(), signal.SIGINT)
        return take(self, step)

    monkeypatch.setattr(Batches, "update", update)
    assert not train(LanguageTask(), options, tmp_path / "again")["finished"]
    assert train(LanguageTask(), None, tmp_path / "again", resume=True)["finished"]
    other = load_run(tmp_path / "again", "last")[0].state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, other[name]), name


def test_the_simulator_has_its_own_rate(tiny):
    options = tiny(model=PLANNING)
    module = LanguageModule(new_model(options, 50), options)
    found = module.configure_optimizers()
    groups = found["optimizer"].param_groups
    simulator = {id(p) for p in module.model.planning.simulator.parameters()}
    assert [{id(p) for p in g["params"]} == simulator for g in groups] == [False, False, True]
    assert groups[2]["lr"] == 1e-2
    assert sum(len(g["params"]) for g in groups) == len(list(module.model.parameters()))
    plain = tiny()
    groups = LanguageModule(new_model(plain, 50), plain).configure_optimizers()["optimizer"].param_groups
    assert len(groups) == 2


def test_a_model_is_judged_with_its_own_plans(tiny):
    for kind in ("anticipatory", "baseline"):
        options = tiny(kind=kind, model=PLANNING)
        model = new_model(options, 50)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        ids = torch.randint(50, (3, 17))
        model.eval()
        with torch.no_grad():
            judged = forward_losses(model, ids, options).ce
            other = forward_losses(model, ids, options).ce
        assert torch.equal(judged, other)
        if kind == "baseline":
            logits = model(ids[:, :-1]).logits
            assert torch.allclose(judged, F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))
        model.train()
        drawn = [forward_losses(model, ids, options) for _ in range(2)]
        assert not torch.equal(drawn[0].ce, drawn[1].ce)
        assert float(drawn[0].total.detach()) > float(drawn[0].ce.detach())
