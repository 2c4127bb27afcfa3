"""Benchmarks with an image and a table from files in the official layout to results: TIP, backbone, GAUGE, DyMo, gates."""

import pytest
import torch
from official import write_dvm, write_hearts, write_leaves, write_lesions

from gauge.masks import parse_protocol
from gauge.paper.explain import explain
from gauge.training.inference import masked_batches
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.experiment import Experiment
from gauge_lab.workspace import Workspace

LAYOUTS = {"dvm": write_dvm, "cad": write_hearts, "ham10000": write_lesions, "leaf99": write_leaves}
SMALL = {"depth": 1, "heads": 2}
RESNET = {"image": {"depth": 18}, "table": {"inner": 8, **SMALL}}
QUICK = {
    "imputer": {"epochs": 1},
    "backbone": {"epochs": 1},
    "finetune": {"epochs": 1},
    "imputer_options": {"width": 8, **SMALL, "resnet": 18},
    "modality_options": RESNET,
}
EPOCH = {"epochs": 1, "batch_size": 99, "selection": ["complete"]}  # of a few steps, each with all 208 units
LEAF = QUICK | {
    "imputer": {"epochs": 1, "batch_size": 99},
    "backbone": EPOCH,
    "finetune": EPOCH,
    "imputer_options": {"width": 8, **SMALL},
    "modality_options": {"table": {"waves": 2}},
}
PROTOCOLS = ("complete", "gamma=0.5", "gamma=1")


SLOW = [pytest.param(*each, marks=pytest.mark.slow) for each in LAYOUTS.items() if each[0] != "leaf99"]  # ResNets


@pytest.mark.parametrize(("name", "write"), [*SLOW, ("leaf99", write_leaves)])
def test_official_files_become_results_and_gates(name, write, tmp_path):
    write(tmp_path / "data")
    workspace = Workspace(tmp_path / "runs", "cpu")
    overrides = LEAF if name == "leaf99" else QUICK

    def experiment(method: str, variant: str) -> Experiment:
        return Experiment(
            benchmark=name, method=method, variant=variant, data=str(tmp_path / "data"), overrides=overrides
        )

    results = {}
    for variant in ("gauge",) if name == "ham10000" else ("gauge", "v1"):
        for result, _ in workspace.run(experiment("gauge", variant), PROTOCOLS):
            results[variant, result.protocol] = result
    assert set(results) >= {("gauge", protocol) for protocol in PROTOCOLS}
    missing = {protocol: results["gauge", protocol].data["missing"] for protocol in PROTOCOLS}
    assert [missing[protocol]["image"] for protocol in PROTOCOLS] == [0, 0, 0]
    assert missing["gamma=1"]["table"] == 1
    if name == "dvm":  # six adverts
        with pytest.raises(ValueError, match=r"the train split has no sample of class 0 \(280 such\)"):
            workspace.run(experiment("dymo", "dymo"), PROTOCOLS)
    elif ("v1", "complete") in results:
        dymo = {result.protocol: result.value for result, _ in workspace.run(experiment("dymo", "dymo"), PROTOCOLS)}
        assert dymo["complete"] == results["v1", "complete"].value, "nothing to recover"

    method, _ = workspace.method(job := workspace.job(experiment("gauge", "gauge")))
    (batch,) = masked_batches(job.test, parse_protocol("gamma=0.5"), 2, torch.arange(2))
    explanation = explain(method, batch)
    modality = {name: explanation.units.modality == index for index, name in enumerate(batch.inputs)}
    assert int(modality["table"].sum()) == len(set(BENCHMARKS.get(name).modalities["table"].columns)), "a unit a column"
    assert explanation.units.observed[:, modality["image"]].all()
    assert not explanation.units.observed[:, modality["table"]].all()
    assert ((explanation.gates > 0) & (explanation.gates < 1)).all()
