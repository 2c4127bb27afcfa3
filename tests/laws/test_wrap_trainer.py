"""A wrapped model in Hugging Face's Trainer: gates are trained, checkpoints hold them, a resumed run ends as a whole one."""

import pytest
import torch
from small_transformers import batch, small

from gauge import wrap

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate: pip install 'gauge-ml[trainer]'")


def samples(name, count=12):
    rows = batch(name)
    return [{key: values[index % 2] for key, values in rows.items()} | {"labels": index % 2} for index in range(count)]


def trainer(model, folder, train=None, **options):
    settings = {
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "per_device_train_batch_size": 2,
        "max_steps": 6,
        "save_steps": 3,
        "learning_rate": 0.01,
        "report_to": "none",
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
    }
    arguments = transformers.TrainingArguments(str(folder), **(settings | options))
    train = train or samples("Bert")
    return transformers.Trainer(model=model, args=arguments, train_dataset=train, eval_dataset=train[:4])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A wrapped model trained for six steps, with a checkpoint after three."""
    folder = tmp_path_factory.mktemp("whole")
    model = wrap(small("Bert"))
    run = trainer(model, folder)
    run.train()
    return folder, model, run


def test_gates_and_model_are_trained_by_the_loss_of_the_model(whole):
    _, model, run = whole
    before = wrap(small("Bert")).state_dict()
    moved = {name for name, values in model.state_dict().items() if not torch.equal(values, before[name])}
    assert {"gate.threshold", "gate.log_temperature", "model.classifier.weight"} <= moved
    metrics = run.evaluate()
    with torch.no_grad():
        output = model.eval()(**batch("Bert"), labels=torch.tensor([0, 1]))
    assert isinstance(output, transformers.utils.ModelOutput)
    assert metrics["eval_loss"] == pytest.approx(float(output.loss), rel=1e-4)
    answers = run.predict(samples("Bert", 2)).predictions
    torch.testing.assert_close(torch.as_tensor(answers), output.logits, rtol=1e-4, atol=1e-5)


def test_a_resumed_run_ends_as_the_whole_one(whole, tmp_path):
    folder, model, _ = whole
    resumed = wrap(small("Bert"))
    trainer(resumed, tmp_path).train(resume_from_checkpoint=str(folder / "checkpoint-3"))
    for name, values in model.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], values, rtol=0, atol=1e-6, msg=name)
