"""export(): the whole prediction of a network as one graph, with the scoring pass inside, as ONNX or for torch.export."""

import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from gauge import __version__
from gauge.choices import pick
from gauge.data.dataset import as_values
from gauge.data.files import write_bytes
from gauge.deploy.exported import FORMAT, KEY, open_session
from gauge.methods.gauge_plus import GaugePlus
from gauge.model.gauge import Gauge
from gauge.tabular.ensemble import Ensemble, expert_weights
from gauge.tabular.estimator import GaugeClassifier
from gauge.tabular.fitted import Fitted
from gauge.types import Batch, Imputer

logger = logging.getLogger(__name__)

TRACED = 211  # samples while tracing: equal sizes count as the same size, so it should be one that nothing else has
EXAMPLE = 8  # samples that stand for a classifier's rows
CHECKED = (1, 5)  # samples with which a written file is compared with the model
TOLERANCE = 1e-3  # largest difference of a probability or gate; rounding stays far below it, a wrong graph does not


@dataclass(frozen=True)
class Exported:
    """A written file: its inputs with their shapes (without the batch), its outputs, the largest difference from the
    network's own probabilities and gates, and what of the classifier it leaves out and why."""

    path: Path
    inputs: Mapping[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    difference: float
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        difference = f"by at most {self.difference:.1g} in a probability or gate"
        if not self.left_out:
            return f"{self.path} differs from the model {difference}"
        parts = ", ".join(self.left_out)
        return f"{self.path} leaves out {parts} of the classifier, and differs from its network {difference}"


class Flat(nn.Module):
    """A network as graphs want it: tensors in (all inputs, then all flags), tensors out."""

    def __init__(self, model: Gauge | GaugePlus, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)
        offered = {"scores": model.gating.scores_units, "gates": model.gating.gates_units}
        self.outputs = ("logits", "probabilities", *(name for name, given in offered.items() if given))

    @torch.no_grad()
    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        count = len(self.names)
        inputs = dict(zip(self.names, map(as_values, tensors[:count]), strict=True))
        batch = Batch(inputs, dict(zip(self.names, tensors[count:], strict=True)))
        prediction = self.model.decide(self.model.read(batch))
        values = {"logits": prediction.logits, "probabilities": prediction.logits.softmax(1)}
        if prediction.gates is not None:
            values["gates"] = prediction.gates
        if prediction.evidence is not None:
            values["scores"] = prediction.evidence.scores
        return tuple(values[name] for name in self.outputs)


def export(
    model: Gauge | GaugePlus | GaugeClassifier, path: str | Path, *, to: str | None = None, example: Batch | None = None
) -> Exported:
    """Write the network as ONNX (`.onnx`) or for `torch.export.load` (`.pt2`), by the ending of `path` unless `to` says.

    The graph takes any number of samples. Its inputs are `inputs.NAME` and `observed.NAME` for each modality, its outputs
    `logits`, `probabilities`, `scores` and `gates`. A network needs an `example` batch for the shapes of its inputs. The
    columns of a classifier travel along as JSON in the metadata of an ONNX file, so that `gauge predict model.onnx` needs no
    torch. The written file is compared with the model before this returns.
    """
    path = Path(path)
    write = pick(FORMATS, path.suffix.lstrip(".") if to is None else to, "export format")
    network, metadata, left_out = _parts(model)
    example = _example(model) if example is None else example
    _check_exportable(network)
    flat = Flat(deepcopy(network).cpu().eval().requires_grad_(False), list(example.inputs))
    names = [f"{kind}.{name}" for kind in ("inputs", "observed") for name in example.inputs]
    tensors = [tensor.cpu() for part in (example.inputs, example.observed) for tensor in part.values()]
    program = trace(flat, tensors)
    run = write(program, path, names, flat.outputs, metadata | {"left_out": left_out})
    difference = np.max([_difference(flat, run, [_cycled(tensor, count) for tensor in tensors]) for count in CHECKED])
    if not difference < TOLERANCE:
        path.unlink()
        raise ValueError(
            f"the graph differs from the model by {difference:.2g} in a probability or gate; nothing was written to {path}"
        )
    for part, reason in left_out.items():
        logger.warning("%s is not part of %s: %s", part, path, reason)
    shapes = {name: tuple(tensor.shape[1:]) for name, tensor in zip(names, tensors, strict=True)}
    return Exported(path, shapes, flat.outputs, float(difference), left_out)


def _parts(model: Gauge | GaugePlus | GaugeClassifier) -> tuple[Gauge | GaugePlus, dict[str, Any], dict[str, str]]:
    """The network, its metadata, and the parts of the classifier that the graph does not hold, with the reason."""
    metadata: dict[str, Any] = {"format": FORMAT, "version": __version__}
    if isinstance(model, Gauge | GaugePlus):
        return model, metadata, {}
    if not isinstance(model, GaugeClassifier):
        raise ValueError(f"{type(model).__name__} cannot be exported; give a Gauge, a GaugePlus or a GaugeClassifier")
    check_is_fitted(model, "fitted_")
    fitted = model.fitted_
    if fitted.ensemble.network is None:
        raise ValueError(
            f"only networks can be exported, this classifier has {', '.join(fitted.experts)}; fit it with 'network'"
        )
    for column in fitted.columns:
        if column.export_problem:
            raise ValueError(column.export_problem)
    metadata |= {
        "classes": fitted.classes.tolist(),
        "class_prior": fitted.ensemble.prior.tolist(),
        "class_weight": fitted.class_weight.tolist(),
        "calibration": _calibration(fitted.ensemble),
        "target": fitted.target,
        "columns": fitted.schema.to_json()["columns"],
        "names": list(fitted.names),
        "named": fitted.named,
    }
    return fitted.ensemble.network, metadata, _left_out(fitted)


def _left_out(fitted: Fitted) -> dict[str, str]:
    """The experts that are not in the graph, with their weight, and what that costs."""
    scores = fitted.leaderboard.set_index("expert")["log_loss"].dropna()  # none where too few rows were held out
    cost = (
        f" (log loss {scores['network']:.3f} instead of {scores['combined']:.3f} on rows held out)"
        if len(scores)
        else ""
    )
    reason = f"only the network is exported, and the file answers as the network alone{cost}"
    others = [name for name, expert in fitted.ensemble.experts.items() if expert.network is None]
    weights = expert_weights(fitted.leaderboard)
    return {f"expert {name!r} (weight {100 * weights[name]:.0f} %)": reason for name in others}


def _calibration(ensemble: Ensemble) -> dict[str, float]:
    """How the network's probabilities are smoothed and weighed; weights learned beside other experts are left out."""
    alone = len(ensemble.experts) == 1
    offset, slope = (float(each.sum()) for each in (ensemble.combination.offset, ensemble.combination.slope))
    weights = {"offset": offset, "slope": slope} if alone else {"offset": 0.0, "slope": 0.0}
    return {"smoothing": ensemble.smoothing, **weights}


def _example(model: Gauge | GaugePlus | GaugeClassifier) -> Batch:
    """Random rows in the form of a classifier's own, half of their images and texts missing."""
    if isinstance(model, Gauge | GaugePlus):
        raise ValueError("a network does not know the shapes of its inputs; give a batch of them as example=")
    blank, draw, rows = model.schema_.blank(EXAMPLE), torch.Generator().manual_seed(0), torch.arange(EXAMPLE)
    inputs, observed = {}, {}
    for place, (name, values) in enumerate(blank.inputs.items()):
        flags = blank.observed[name]
        whole = values.is_floating_point()  # the cells of the table, which exist in every row
        inputs[name] = torch.randint(0, 2, values.shape, generator=draw).to(values.dtype)
        observed[name] = torch.rand(flags.shape, generator=draw) < 0.7 if whole else (rows + place) % 2 == 0
    return Batch(inputs, observed)


def _check_exportable(model: Gauge | GaugePlus) -> None:
    imputer = getattr(model.imputer, "imputer", None)
    reason = imputer.unexportable() if isinstance(imputer, Imputer) else None
    if reason is not None:
        raise ValueError(f"the imputer {type(imputer).__name__} cannot be exported: {reason}")


def _cycled(tensor: Tensor, count: int) -> Tensor:
    """`count` samples, the same ones over and over."""
    return tensor[torch.arange(count) % len(tensor)]


def trace(module: nn.Module, tensors: Sequence[Tensor]) -> torch.export.ExportedProgram:
    """A module as one program for any number of samples; backward passes inside it become part of the program."""
    tensors = [_cycled(tensor, TRACED) for tensor in tensors]
    any_count = tuple({0: torch.export.Dim.DYNAMIC} for _ in tensors)
    try:
        with sdpa_kernel(SDPBackend.MATH):  # the only kernel whose backward pass consists of ordinary operations
            graph = make_fx(lambda *given: module(*given), tracing_mode="symbolic", _allow_non_fake_inputs=True)(
                *tensors
            )
            return torch.export.export(graph, tuple(tensors), dynamic_shapes=any_count, strict=False)
    except Exception as error:  # torch raises many kinds, from within the component that cannot be traced
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"the network cannot be traced ({reason}); components in it must compute with tensors alone, for any number of "
            "samples, and not depend on their values"
        ) from error


def _difference(flat: Flat, run: Callable[..., Sequence[np.ndarray]], tensors: list[Tensor]) -> float:
    """The largest difference of the written graph from the model, over probabilities and gates."""
    pairs = zip(flat.outputs, flat(*tensors), run(*tensors), strict=True)
    apart = [np.abs(a.numpy() - b).max() for name, a, b in pairs if name in ("probabilities", "gates")]
    return float(np.max(apart))  # NaN if any is, unlike max()


def write_onnx(
    program: torch.export.ExportedProgram,
    path: Path,
    names: Sequence[str],
    outputs: Sequence[str],
    metadata: Mapping[str, Any],
) -> Callable[..., Sequence[np.ndarray]]:
    try:
        import onnxruntime  # noqa: F401 - the file is read back
        import onnxscript  # noqa: F401 - torch.onnx needs it
    except ImportError as error:
        raise ValueError("exporting to ONNX needs onnx; install it with: pip install 'gauge-ml[onnx]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, from inside its exporter
        onnx = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=list(names), output_names=list(outputs)
        )
    assert onnx is not None
    onnx.model.metadata_props[KEY] = json.dumps(metadata)
    write_bytes(path, lambda file: file.write(onnx.model_proto.SerializeToString()))
    session = open_session(path)
    return lambda *tensors: session.run(list(outputs), dict(zip(names, (x.numpy() for x in tensors), strict=True)))


def write_pt2(
    program: torch.export.ExportedProgram,
    path: Path,
    names: Sequence[str],
    outputs: Sequence[str],
    metadata: Mapping[str, Any],
) -> Callable[..., Sequence[np.ndarray]]:
    record = json.dumps({**metadata, "inputs": list(names), "outputs": list(outputs)})
    write_bytes(path, lambda file: torch.export.save(program, file, extra_files={f"{KEY}.json": record}))
    loaded = torch.export.load(path).module()
    return lambda *tensors: [output.detach().numpy() for output in loaded(*tensors)]


FORMATS = {"onnx": write_onnx, "pt2": write_pt2}
