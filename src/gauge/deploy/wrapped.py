"""Wrapped Transformers as files: saved with their gates, loaded, and exported as one graph with the scoring pass inside."""

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, Field
from torch import Tensor, nn

from gauge import __version__
from gauge.deploy.export import Exported, write_graph
from gauge.paper.gauge import Gate
from gauge.registry import SCORERS
from gauge.training import checkpoint
from gauge.training.traced import Graphable
from gauge.types import Scorer
from gauge.wrapping.classifier import Average
from gauge.wrapping.wrap import Wrapped, wrap

GATES, WEIGHTS = "gauge.safetensors", "model.safetensors"
# known after a first batch
CHECKED = ("applies_gates", "leak", "average", "reads_last", "longest", "masked", "attentions")


class _Settings(BaseModel):
    """What a file with gates says of the wrapped model beside it."""

    wrapped: Literal["gauge-wrapped-1"] = "gauge-wrapped-1"
    version: str
    score: str
    fixed: Annotated[int, Field(ge=0)] | None
    max_leak: float
    applies_gates: bool
    leak: float | None
    average: Average | None
    reads_last: bool
    longest: Annotated[int, Field(ge=0)]
    masked: bool = False
    attentions: Annotated[int, Field(ge=0)] | None
    model: str
    state: str


def save_wrapped(model: Wrapped, folder: str | Path) -> None:
    """Write a wrapped model to a folder: the model in the files of its own library, and its gates in `gauge.safetensors`.

    A model of Hugging Face is written by its `save_pretrained`, any other one as `model.safetensors`, its weights alone. The
    file with the gates is written last and has a checksum of the model.

    Parameters
    ----------
    model
        What `wrap` returned.
    folder
        Where the files go.

    Examples
    --------
    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> bert = BertForSequenceClassification(BertConfig(hidden_size=12, num_hidden_layers=1)).eval()
    >>> save_wrapped(wrap(bert), "reader")
    >>> sorted(file.name for file in Path("reader").iterdir())
    ['config.json', 'gauge.safetensors', 'model.safetensors']
    """
    folder = Path(folder)
    if type(model.gate) is not Gate:
        raise ValueError(f"a gate of type {type(model.gate).__name__} cannot be saved; wrap the model with gauge.Gate")
    network = model.model
    settings = _Settings(
        version=__version__,
        score=_scorer_name(model.score),
        fixed=model.fixed,
        max_leak=model.max_leak,
        **{name: getattr(model, name) for name in CHECKED},
        model=type(network).__name__,
        state=_state_checksum(network),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GATES).unlink(missing_ok=True)  # a folder that has it is complete
    if hasattr(network, "save_pretrained"):
        network.save_pretrained(folder)  # type: ignore[operator]
    else:
        checkpoint.save(folder / WEIGHTS, network.state_dict(), {"model": settings.model})
    checkpoint.save(folder / GATES, model.gate.state_dict(), settings.model_dump())


def load_wrapped(folder: str | Path, model: nn.Module) -> Wrapped:
    """Return the wrapped model that `save_wrapped` wrote to a folder. Nothing in `gauge.safetensors` is executed.

    Parameters
    ----------
    folder
        With the gates, and with the model's own files.
    model
        The model that was saved with them, read by its own library: one of Hugging Face by `from_pretrained(folder)`; any
        other one is built as before, with the weights in `model.safetensors`. One that differs is refused.

    Returns
    -------
    Wrapped
        Which predicts and explains as the saved one does.

    Examples
    --------
    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> bert = BertForSequenceClassification(BertConfig(hidden_size=12, num_hidden_layers=1)).eval()
    >>> save_wrapped(wrap(bert), "reader")
    >>> load_wrapped("reader", bert).applies_gates
    False
    """
    folder = Path(folder)
    tensors, saved = _gates_file(folder / GATES)
    if _state_checksum(model) != saved.state:
        raise ValueError(
            f"this {type(model).__name__} differs in weights or settings from the {saved.model} that was saved to "
            f"{folder}; read it from there, by from_pretrained or load_state_dict, or wrap it anew with gauge.wrap(model)"
        )
    wrapped = wrap(model, fixed=saved.fixed, score=SCORERS.get(saved.score), max_leak=saved.max_leak)
    checkpoint.load_into(wrapped.gate, tensors, folder / GATES)
    for name in CHECKED:
        setattr(wrapped, name, getattr(saved, name))
    return wrapped.train(model.training)


def export_wrapped(model: Wrapped, path: str | Path, example: Mapping[str, Tensor]) -> Exported:
    """Write a wrapped model as ONNX.

    The graph has the ungated pass, its gradient, the gates and the gated pass. It takes any number of samples, each of the
    shape that those of `example` have: texts are padded to its length, with an `attention_mask`. Its inputs have the names
    in `example`, its outputs are `logits`, `probabilities`, `scores` and `gates`. The written file is compared with the
    model before this returns.

    Parameters
    ----------
    model
        What `wrap` returned.
    path
        Of the file; it ends in .onnx.
    example
        A batch of the model's inputs, by name.

    Returns
    -------
    Exported
        As from `export`.

    Examples
    --------
    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> bert = BertForSequenceClassification(BertConfig(hidden_size=12, num_hidden_layers=1)).eval()
    >>> words = {"input_ids": torch.tensor([[1, 5, 3, 7]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    >>> export_wrapped(wrap(bert), "reader.onnx", words).outputs  # doctest: +SKIP
    ('logits', 'probabilities', 'scores', 'gates')
    """
    if not isinstance(example, Mapping):
        raise ValueError(f"the example is a {type(example).__name__}; give a batch of tensors, by name: {{'x': x}}")
    others = [name for name, value in example.items() if not isinstance(value, Tensor)]
    if others or not example:
        raise ValueError(f"the example has {', '.join(others) or 'no inputs'}; give a batch of tensors, by name")
    inputs = {name: value.cpu() for name, value in example.items() if name != "labels"}
    flat = _Flat(deepcopy(model).cpu().float().eval().requires_grad_(False), tuple(inputs))
    # the first batch shows whether the model can be gated
    if flat.model.read(**inputs).tokens.shape[1] > flat.model.longest:
        raise ValueError(
            f"the example does not show what the head of {type(model.model).__name__} reads; give one with a sample of "
            "three tokens or more besides padding, on which the logits depend"
        )
    return write_graph(flat, list(inputs.values()), Path(path), {"format": "gauge-wrapped-1", "version": __version__})


class _Flat(Graphable):
    def __init__(self, model: Wrapped, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, names, ("logits", "probabilities", "scores", "gates")

    @torch.no_grad()
    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        prediction = self.model.predict(**dict(zip(self.inputs, tensors, strict=True)))
        assert prediction.evidence is not None
        assert prediction.gates is not None
        return prediction.logits, prediction.logits.softmax(1), prediction.evidence.scores, prediction.gates


def _scorer_name(score: Scorer) -> str:
    names = [name for name in SCORERS.names() if SCORERS.get(name) is score]
    if not names:
        raise ValueError(
            f"the scorer {getattr(score, '__name__', score)} has no name to save; register it with "
            "@SCORERS.register, or use one of the library"
        )
    return names[0]


def _state_checksum(model: nn.Module) -> str:
    """That of the weights and, for a model of Hugging Face, of its configuration."""
    # set by saving, or seen in the weights
    unchecked_config = ("architectures", "dtype", "torch_dtype", "transformers_version")
    config: Any = getattr(model, "config", None)
    settings = config.to_dict() if hasattr(config, "to_dict") else {}
    compared = {name: value for name, value in settings.items() if name[0] != "_" and name not in unchecked_config}
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    return checkpoint.checksum(state, json.dumps(compared, sort_keys=True, default=str))


def _gates_file(path: Path) -> tuple[dict[str, Tensor], _Settings]:
    if not path.is_file():
        raise ValueError(
            f"{path.parent} is not a saved wrapped model (it has no {path.name}); give a folder that save_wrapped wrote"
        )
    try:
        tensors, metadata = checkpoint.load(path)
        settings = _Settings.model_validate(metadata)
    except ValueError as error:  # pydantic's, too
        raise ValueError(f"{path} is damaged or has another format; save the wrapped model again") from error
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise ValueError(f"{path} has gates that are NaN or infinite; train the wrapped model again")
    return tensors, settings
