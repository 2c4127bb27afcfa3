"""GaugePlusClassifier: a classifier of samples with several modalities, any of them missing."""

import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from pydantic import Field
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.data.dataset import as_values
from gauge.encoders import FlatTable, OwnEncoder, WithWhole
from gauge.masks import Complete, Corruption, Missing, parse_protocol
from gauge.multimodal.explanation import MAX_SUBSETS, explain_effects
from gauge.nn.attention import Transformer
from gauge.nn.tabular import by_cell
from gauge.paper.gauge import UNGATED, Gating
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.plus.gauge_plus import GaugePlus
from gauge.randomness import permutation, seeded
from gauge.registry import ENCODERS
from gauge.tabular.evidence.explanation import Explanation
from gauge.training import checkpoint
from gauge.training.device import pick_device
from gauge.training.inference import predict_split
from gauge.training.loop import Epoch, fit
from gauge.training.metrics import ACCURACY, log_loss
from gauge.training.progress import stage_progress
from gauge.training.settings import Settings, TrainSettings
from gauge.values import over_values


class Description(Settings):
    """What a model is built from. `encoders` holds names and options of ours, and an empty name for modules of users."""

    # protocols name them with +
    encoders: dict[Annotated[str, Field(pattern=r"^[\w -]+$")], tuple[str, dict[str, Any]]]
    classes: tuple[bool | int | str, ...]
    dim: int = Field(gt=0)
    depth: int = Field(gt=0)
    trust: bool
    settings: TrainSettings
    shapes: dict[str, tuple[int, ...]] = Field(default_factory=dict)  # known after `fit`
    dtypes: dict[str, Literal["float32", "uint8", "int32", "int64"]] = Field(default_factory=dict)
    by_cell: tuple[str, ...] = ()  # tables with blank cells in training, which have a flag for each
    scaled: tuple[str, ...] = ()  # modalities whose values were from 0 to 1 in training, as those of bytes are
    # the smallest and largest codes at each position, numbers of each column, or values of all else in training
    ranges: dict[str, list[list[float]]] = Field(default_factory=dict)
    history: list[dict[str, Any]] = Field(default_factory=list)  # of training, an entry for each epoch


class GaugePlusClassifier:
    """A GAUGE+ network that is trained, evaluated, explained and saved in one line each.

    Samples are a `Dataset`; `gauge.data.gather` makes one of tensors, arrays, lists or a DataLoader. Images are [channels,
    height, width], as bytes or as numbers from 0 to 1; the columns of tables of numbers are standardised by those of the
    training samples, and all else is read as it is.

    Parameters
    ----------
    encoders
        For each modality the name of an encoder (`gauge list encoders`), a pair of name and options, or a module of your
        own that makes a vector [b, c], or a sequence of vectors [b, n, c], of b samples. `gauge.check_encoder` tests it.
    classes
        The names of the classes; whole numbers, True and False stay what they are.
    dim
        The width of the Transformer that reads all modalities together.
    depth
        Its number of blocks.
    trust
        Whether to learn how far each modality can be trusted, from training samples some of whose modalities are swapped.
    settings
        How to train. What they do not set is that of the classifier: up to 100 epochs, in batches of 64 and with a cosine
        schedule, until 20 epochs have not improved the validation accuracy, complete and under random subsets.
    device
        "cpu", "cuda", "cuda:1" or "mps"; by default a GPU if there is one.
    verbose
        Whether to show the progress of training, on stderr.

    Attributes
    ----------
    classes_
        The names of the classes, in the order of the columns of `predict_proba`.
    module_ : GaugePlus
        The trained network, an ordinary `nn.Module`.
    history_
        The losses, the share of each head in training its encoder, the validation score and the seconds of every epoch;
        empty before `fit`.

    Examples
    --------
    >>> from gauge.data import gather
    >>> data = gather({"scan": torch.rand(40, 3), "blood": torch.rand(40, 5)}, torch.arange(40) % 2)
    >>> encoders, settings = {"scan": "mlp", "blood": nn.Linear(5, 8)}, TrainSettings(epochs=1)
    >>> model = GaugePlusClassifier(encoders, ["ill", "well"], settings=settings, verbose=False).fit(data)
    >>> model.predict_proba(data).shape
    (40, 2)
    """

    _module: GaugePlus | None = None

    def __init__(
        self,
        encoders: Mapping[str, str | tuple[str, Mapping[str, Any]] | nn.Module],
        classes: Sequence[str | int] | np.ndarray,
        *,
        dim: int = 64,
        depth: int = 2,
        trust: bool = False,
        settings: TrainSettings | None = None,
        device: str | None = None,
        verbose: bool = True,
    ) -> None:
        selected = {"epochs": 100, "batch_size": 64, "schedule": "cosine", "selection": ("complete", "any-subset")}
        if not isinstance(encoders, Mapping) or not isinstance(settings, TrainSettings | None):
            raise ValueError(
                "encoders are {modality: name, (name, options) or module}, settings are TrainSettings(...)"
            )
        if taken := sorted(name for name in encoders if hasattr(nn.ModuleDict, name)):
            raise ValueError(f"modalities cannot be named {taken}, as modules of torch have these; rename them")
        own = {} if settings is None else {name: getattr(settings, name) for name in settings.model_fields_set}
        settings = TrainSettings.parse(selected | own, "settings")
        if trust and not settings.corrupt:
            settings = settings.model_copy(update={"corrupt": Corruption(swapped=0.2)})
        given = classes if isinstance(classes, Iterable) and not isinstance(classes, str | Mapping | Set) else ()
        names = [each.item() if isinstance(each, np.generic | Tensor) and each.ndim == 0 else each for each in given]
        unnamed = any(each is None or getattr(each, "ndim", 0) for each in names)
        names = names if {*map(type, names)} in ({int}, {bool}) else list(map(str, names))
        if len({*names}) < max(2, len(names)) or unnamed:
            raise ValueError(f"classes are the names of two classes or more, each once, not {classes!r}")
        self.modules = {name: each for name, each in encoders.items() if not isinstance(each, str | tuple)}
        named = {name: _named(each) for name, each in encoders.items()}
        content = {"encoders": named, "classes": names, "dim": dim, "depth": depth}
        self.description = Description.parse({**content, "trust": trust, "settings": settings}, "GaugePlusClassifier")
        self.device, self.verbose = pick_device(device), verbose

    @property
    def classes_(self) -> np.ndarray:
        return np.array(self.description.classes)

    @property
    def history_(self) -> list[dict[str, Any]]:
        return self.description.history

    @property
    def module_(self) -> GaugePlus:
        if self._module is None:
            raise NotFittedError(
                "this GaugePlusClassifier is not fitted; call fit(train, val) first, or load a saved one"
            )
        return self._module

    def fit(self, train: Dataset, val: Dataset | None = None) -> Self:
        """Return the classifier, trained.

        Parameters
        ----------
        train
            Samples with labels.
        val
            Other samples with labels, by default a fifth of `train`, or of its groups. No weights of the network learn from
            them: they choose the epoch, end training early, decide how much each head trains its encoder, and weigh the
            votes of the network and the heads.

        Returns
        -------
        GaugePlusClassifier
            The classifier itself.

        Examples
        --------
        >>> train, val = data.take(range(30)), data.take(range(30, 40))
        >>> len(GaugePlusClassifier(encoders, ["ill", "well"], settings=settings, verbose=False).fit(train, val).history_)
        1
        """
        for data in (train, train if val is None else val):
            self._check_samples(data, labelled=True)
        if val is None:
            train, val = self._held_out(train)
        self._warn_of_unseen(train)
        before = self.description
        try:
            module, history = self._trained(train, val)
        except BaseException:
            self.description = before
            raise
        self._module, self.description = module, self.description.model_copy(update={"history": history})
        return self

    def _held_out(self, train: Dataset) -> tuple[Dataset, Dataset]:
        """The samples to learn from, and a fifth of all groups, or of all samples where these have none."""
        group = torch.arange(len(train)) if train.groups is None else train.groups.cpu().unique(return_inverse=True)[1]
        order = permutation(int(group.max()) + 1, self.description.settings.seed, "held out")
        if len(order) < 5:
            of = "samples" if train.groups is None else "groups"
            raise ValueError(
                f"a fifth of train is held out where val is not given, and train has {len(order)} {of}; give val"
            )
        rank = order.argsort()[group]
        rows, count = rank.argsort(stable=True), int((rank < len(order) // 5).sum())
        return train.take(rows[count:]), train.take(rows[:count])

    def _trained(self, train: Dataset, val: Dataset) -> tuple[GaugePlus, list[dict[str, Any]]]:
        """The network and the history of its training; what is known of the samples is then in the description."""
        train, val = _single(train), _single(val)
        dtypes = {name: str(values.dtype).removeprefix("torch.") for name, values in train.inputs.items()}
        scaled = tuple(name for name, flags in train.observed.items() if _within_one(train.inputs[name], flags))
        by_cell = [
            name for name in train.shapes if any(data.observed.get(name, data.labels).ndim > 1 for data in (train, val))
        ]
        ranges = {name: _range(train.inputs[name], flags) for name, flags in train.observed.items()}
        seen = {"shapes": train.shapes, "dtypes": dtypes, "by_cell": by_cell, "scaled": scaled, "ranges": ranges}
        self.description = Description.parse(self.description.model_dump() | seen, "the samples")
        module = self._build(train)
        train, val = self._on_device(train, module), self._on_device(val, module)
        settings = self.description.settings
        size = settings.batch_size  # the next one that leaves no sample alone, which BatchNorm cannot learn from
        size = next((each for each in range(size, 2 * size) if len(train) % each != 1), size)
        with stage_progress() as show, torch.enable_grad():

            def on_epoch(epoch: Epoch) -> None:
                if not self.verbose:
                    return
                if not settings.selection:  # the loop validates only what it selects by
                    epoch = replace(epoch, score=predict_split(module, val, Complete()).score(settings.metric))
                show("GAUGE+", epoch)

            sized = settings.model_copy(update={"batch_size": size})
            return module, fit(module, train, val, settings=sized, on_epoch=on_epoch).history

    def predict_proba(self, data: Dataset) -> np.ndarray:
        """Return the probabilities of the classes for every sample.

        Parameters
        ----------
        data
            Samples, with or without labels, each with one modality at least; one that all of them miss may be left out.

        Returns
        -------
        ndarray of shape [samples, classes]
            A column for each class, in the order of `classes_`; its rows sum to 1.

        Examples
        --------
        >>> model.predict_proba(gather({"scan": torch.rand(3, 3)})).shape
        (3, 2)
        """
        return predict_split(self.module_, self._on_device(data), Complete()).probabilities

    def predict(self, data: Dataset) -> np.ndarray:
        """Return the name of the most probable class of every sample.

        Parameters
        ----------
        data
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape [samples]
            Names of classes.

        Examples
        --------
        >>> set(model.predict(data)) <= {"ill", "well"}
        True
        """
        return self.classes_[self.predict_proba(data).argmax(1)]

    def evaluate(self, data: Dataset, missing: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Return accuracy with its 95 % interval, and log loss, with a line for each way to miss modalities.

        Parameters
        ----------
        data
            Labelled samples that were not trained on.
        missing
            Protocols such as `missing=image`, or `eta=0.5`, which hides half of the modalities of each sample, at random.
            By default `complete`, which hides nothing, and all subsets of the modalities, or single ones if these are many.

        Returns
        -------
        DataFrame
            A line for each protocol, with `accuracy`, the ends `low` and `high` of its interval, `log_loss`, and the number
            of `samples`: those that have another modality than the missing ones.

        Examples
        --------
        >>> model.evaluate(data)["samples"].to_dict()
        {'complete': 40, 'missing=scan': 40, 'missing=blood': 40}
        """
        self._check_samples(data, labelled=True)
        names, data = list(self.description.shapes), self._on_device(data)
        counts = range(1, len(names)) if 2 ** len(names) - 1 <= MAX_SUBSETS else (1,)
        every = [str(Complete()), *(str(Missing(some)) for count in counts for some in combinations(names, count))]
        lines, unknown = {}, dict.fromkeys(("accuracy", "low", "high", "log_loss"), float("nan"))
        for protocol in every if missing is None else [missing] if isinstance(missing, str) else missing:
            parsed = parse_protocol(protocol)
            hidden = getattr(getattr(parsed, "protocol", parsed), "modalities", ())
            flags = [each.reshape(len(data), -1).any(1) for name, each in data.observed.items() if name not in hidden]
            rows = torch.stack(flags).any(0).nonzero()[:, 0] if flags else torch.arange(0)
            lines[protocol] = unknown | {"samples": len(rows)}
            if len(rows):
                result = predict_split(self.module_, data if len(rows) == len(data) else data.take(rows), protocol)
                low, high = result.interval(ACCURACY)
                loss = log_loss(result.probabilities, result.labels)
                lines[protocol] |= {"accuracy": result.score(ACCURACY), "low": low, "high": high, "log_loss": loss}
        return pd.DataFrame(lines).T.astype({"samples": int})

    def explain(self, data: Dataset, *, columns: Mapping[str, Sequence[str]] | None = None) -> Explanation:
        """Return what each modality, and each cell or part of it, did for the prediction of every sample: exact effects, in
        probability, of leaving it out; of parts of images and sequences, of leaving out the unit that the encoder makes of
        them.

        Parameters
        ----------
        data
            As for `predict_proba`.
        columns
            The names of the columns of tables, such as `{"blood": ["iron", "sugar"]}`.

        Returns
        -------
        Explanation
            The effects as a DataFrame (`to_frame`), a page (`to_html`) or a figure (`plot`), and in a notebook.

        Examples
        --------
        >>> model.explain(data.take([0])).to_frame()["column"].unique().tolist()
        ['scan', 'blood']
        """
        rows, names = self._on_device(data), list(map(str, self.description.classes))
        parts = [explain_effects(self.module_, batch, classes=names, columns=columns) for batch in rows.batches(256)]
        return replace(parts[0], rows=tuple(row for part in parts for row in part.rows))

    def save(self, path: str | Path) -> None:
        """Write weights, settings, classes and the standardisation of tables into one file.

        Parameters
        ----------
        path
            Of the file, in the format of safetensors.

        Examples
        --------
        >>> model.save("clinic.safetensors")
        """
        tensors = {f"model.{name}": values for name, values in self.module_.state_dict().items()}
        checkpoint.save(Path(path), tensors | {"check": self._check()}, self.description.model_dump(mode="json"))

    @classmethod
    def load(
        cls, path: str | Path, encoders: Mapping[str, nn.Module] | None = None, *, device: str | None = None
    ) -> "GaugePlusClassifier":
        """Return the classifier that `save` has written. No code comes from the file; what does not fit is refused.

        Parameters
        ----------
        path
            Of the file.
        encoders
            Your own modules by modality, built as for training; their weights are then those of the file.
        device
            As for the classifier.

        Returns
        -------
        GaugePlusClassifier
            With the predictions and the `history_` of the saved one.

        Examples
        --------
        >>> model.save("clinic.safetensors")
        >>> same = GaugePlusClassifier.load("clinic.safetensors", {"blood": nn.Linear(5, 8)})
        >>> bool((same.predict(data) == model.predict(data)).all())
        True
        """
        tensors, metadata = checkpoint.load(Path(path))
        saved, given = Description.parse(metadata, str(path)), encoders or {}
        own = sorted(name for name, (kind, _) in saved.encoders.items() if not kind)
        modules = isinstance(given, Mapping) and all(isinstance(each, nn.Module) for each in given.values())
        if not modules or own != sorted(given):
            shown = sorted(given) if modules else given
            raise ValueError(
                f"{path} was trained with encoders of your own for {own}, and load was given {shown}; give them as "
                "encoders={name: module}, built as for training"
            )
        model = cls({**saved.encoders, **given}, saved.classes, dim=saved.dim, depth=saved.depth, device=device)
        model.description = saved
        model._module = model._build(model.example())
        weights = {name.removeprefix("model."): values for name, values in tensors.items() if name != "check"}
        try:
            checkpoint.load_into(model.module_, weights, Path(path))
        except ValueError as error:
            raise ValueError(f"{error}; build your encoders for {own} as for training") from error
        model.module_.to(model.device).eval()
        apart = float((model._check() - tensors["check"]).abs().max())
        if not apart < 1e-3:
            raise ValueError(
                f"the probabilities of the loaded model differ by {apart:.2g} from those of the saved one, although all "
                f"weights fit; build your encoders for {own} as for training"
            )
        return model

    def example(self) -> Dataset:
        """Return a few samples of random numbers, such as an export needs, in the shapes of the modalities and the range of
        training; with blank cells where training had some."""
        draw, values, observed = torch.Generator().manual_seed(0), {}, {}
        for name, shape in self.description.shapes.items():
            dtype = getattr(torch, self.description.dtypes[name])
            whole = not dtype.is_floating_point or "cardinalities" in self.description.encoders[name][1]
            most = {torch.uint8: 255.0, torch.float32: 1.0}.get(dtype, 0.0)  # where the range is not known
            low, high = torch.tensor(self.description.ranges.get(name, [[0.0], [most]]), dtype=torch.double)
            drawn = low + torch.rand(4, *shape, generator=draw).double().flatten(1) * (high - low + whole)
            values[name] = (drawn.floor() if whole else drawn).to(dtype).view(4, *shape)
            if name in self.description.by_cell:
                observed[name] = torch.arange(shape[0]) % 4 != torch.arange(4)[:, None]
                values[name][~observed[name]] = torch.nan if dtype.is_floating_point else 0
        return Dataset("example", values, torch.zeros(4, dtype=torch.long), observed)

    def _build(self, like: Dataset) -> GaugePlus:
        own, modules = self.description, deepcopy(self.modules)  # together: one module may be that of two modalities
        if set(like.inputs) != set(own.encoders):
            raise ValueError(
                f"the samples have {sorted(like.inputs)}, the encoders {sorted(own.encoders)}; give one for each"
            )
        with seeded(own.settings.seed, "build", "GAUGE+"):
            encoders = {}
            for name, values in like.inputs.items():
                try:
                    encoders[name] = self._encoder(name, values, like.observed[name], modules)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"modality {name!r}: {error}") from error
            network = Network(Transformer(own.dim, heads=4, depth=own.depth), own.dim, len(own.classes))
            gating: Gating | Literal["trust"] = "trust" if own.trust else UNGATED
            return GaugePlus(UnitEncoder(encoders, own.dim), network, gating=gating, corrupt=own.settings.corrupt)

    def _encoder(self, name: str, like: Tensor, observed: Tensor, modules: Mapping[str, nn.Module]) -> OwnEncoder:
        """The encoder of a modality; one of ours that reads parts of it has a unit that reads all of it, too."""
        shape, (kind, options) = like.shape[1:], self.description.encoders[name]
        if name not in modules and like.ndim == 2 and kind != "tokens":
            like = as_values(like).float()  # whole numbers are numbers, too
        if like.ndim == 2 and like.is_floating_point():
            like = like.where(by_cell(observed, like), torch.nan)
        if name in modules:
            return OwnEncoder(modules[name], shape, like)
        encoder = ENCODERS.get(kind)(shape, self.description.dim, **options)
        sizes = {key: value for key, value in options.items() if key == "cardinalities"}
        if encoder.units > 1 and not encoder.whole:
            table = FlatTable(shape, self.description.dim, **sizes) if len(shape) == 1 else None
            encoder = WithWhole(encoder, table)
        return OwnEncoder(encoder, shape, None if sizes else like)

    def _check_samples(self, data: Dataset, *, labelled: bool = False) -> None:
        if not isinstance(data, Dataset):
            raise ValueError(f"samples are a Dataset, not a {type(data).__name__}; call gauge.data.gather(...) first")
        known, most = len(self.description.classes), int(data.labels.max())
        if most >= known:
            raise ValueError(f"labels go from 0 to {known - 1}, not to {most}; name all classes in classes=")
        if labelled and not data.labelled.all():
            raise ValueError(f"{int((~data.labelled).sum())} of {len(data)} samples have no label; take() the others")

    def _warn_of_unseen(self, train: Dataset) -> None:
        counts = train.labels.bincount(minlength=len(self.description.classes)).tolist()
        classes = [name for name, count in zip(self.description.classes, counts, strict=True) if not count]
        modalities = [name for name, flags in train.observed.items() if not flags.any()]
        for kind, names in (("class", classes), ("modality", modalities)):
            if names:
                warnings.warn(
                    f"no training sample has {kind} {', '.join(map(repr, names))}, of which nothing is learned; add some "
                    "that have it, or leave it out",
                    stacklevel=3,
                )

    def _on_device(self, data: Dataset, module: GaugePlus | None = None) -> Dataset:
        """The samples for the module, in the order of training; of modalities that they do not have, nothing is observed."""
        self._check_samples(data)
        data = _single(data)
        reader, shapes = (module or self.module_).encoder, self.description.shapes
        wrong = {name: shape for name, shape in data.shapes.items() if shapes.get(name) != shape}
        if wrong:
            raise ValueError(f"the samples have {wrong}, the model was trained on {shapes}; resize or rename these")
        for name, flags in data.observed.items():
            if flags.ndim > 1 and flags.shape[1] != reader.unit_counts[name] and not reader.has_whole(name):
                raise ValueError(
                    f"cells of {name!r} are blank, and its encoder reads them together; use 'columns', which reads each by "
                    "itself, or fill them first"
                )
        for name, values in data.inputs.items():
            self._check_values(name, values, data.observed[name])
        inputs, observed = {}, {}
        for name, shape in shapes.items():
            missing = torch.zeros(1, dtype=getattr(torch, self.description.dtypes[name])).expand(len(data), *shape)
            inputs[name] = data.inputs.get(name, missing)
            observed[name] = data.observed.get(name, torch.zeros(len(data), dtype=torch.bool))
        return replace(data, inputs=inputs, observed=observed).to(self.device)

    def _check_values(self, name: str, values: Tensor, observed: Tensor) -> None:
        """Raise an error if values would be read in another way than those of training."""
        known, (kind, options) = self.description.dtypes[name], self.description.encoders[name]
        if kind in ("", "tokens") and known in ("int32", "int64") and values.is_floating_point():
            raise ValueError(f"{name!r} has {values.dtype} values but was trained on {known}; give whole numbers")
        if not kind and known not in ("int32", "int64") and values.dtype in (torch.int32, torch.int64):
            raise ValueError(f"{name!r} has {values.dtype} values but was trained on {known}; convert them to that")
        comparable = name in self.description.scaled and _within_one(values, observed)
        if (values.dtype == torch.uint8) != (known == "uint8") and not comparable:
            raise ValueError(
                f"{name!r} has {values.dtype} values but was trained on {known}, and bytes are read as numbers from 0 to 1; "
                f"convert them to {known}"
            )
        if name in self.description.scaled and values.ndim == 4 and values.is_floating_point() and not comparable:
            most = values[observed].max()
            if most > 2:  # what a change of brightness does not reach
                raise ValueError(
                    f"{name!r} goes up to {most:g}, in training from 0 to 1; scale it alike, or give bytes"
                )
        if "cardinalities" in options:
            sizes = torch.tensor(options["cardinalities"], device=values.device)
            code = (values >= 0) & (values < sizes) & (values == values.round())
            for row, column in (by_cell(observed, values) & (sizes > 1) & ~code).nonzero()[:1].tolist():
                raise ValueError(
                    f"sample {row} of {name!r} has the category {values[row, column]:g} in column {column}, whose "
                    f"categories are 0 to {sizes[column] - 1}; change it, or 'cardinalities' of the encoder"
                )
        if kind == "tokens" and observed.any():
            words, codes = options.get("words", 64), values[observed]
            if not 0 <= (low := codes.min()) <= (high := codes.max()) < words:
                raise ValueError(
                    f"{name!r} has word numbers from {low:.0f} to {high:.0f}, and its encoder knows those from 0 to "
                    f"{words - 1}; give ('tokens', {{'words': ...}}), and 1 for words that training had not"
                )

    def _check(self) -> Tensor:
        """The probabilities of samples for which a loaded model has to give the same."""
        return torch.from_numpy(self.predict_proba(self.example()))


def _named(encoder: str | tuple[str, Mapping[str, Any]] | nn.Module) -> tuple[str, dict[str, Any]]:
    if not isinstance(encoder, str | tuple):
        return "", {}
    return (encoder, {}) if isinstance(encoder, str) else (encoder[0], dict(*encoder[1:]))


def _single(data: Dataset) -> Dataset:
    """The samples with numbers in single precision, as networks read them."""
    numbers = {name: values for name, values in data.inputs.items() if values.is_floating_point()}
    single = {name: values.float() for name, values in numbers.items() if values.dtype != torch.float32}
    return replace(data, inputs={**data.inputs, **single}) if single else data  # which would be checked again


def _within_one(values: Tensor, observed: Tensor) -> bool:
    """Whether the observed values are numbers from 0 to 1, or bytes, which are read as such; 4,096 samples are enough."""
    if values.dtype == torch.uint8:
        return True
    known = values[:4096][observed[:4096]]
    return bool(((known >= 0) & (known <= 1)).all())


def _range(values: Tensor, observed: Tensor) -> list[list[float]]:
    """The smallest and the largest codes at each position, numbers of each column, or values of all else."""
    if values.dtype == torch.uint8:
        return [[0.0], [255.0]]
    flags, some = over_values(observed, values)[:4096].to(values.device), values[:4096]
    axes = list(range(values.ndim)) if values.is_floating_point() and values.ndim > 2 else [0]
    some = some if values.is_floating_point() else some.double()
    ends = some.where(flags, torch.inf).amin(axes), some.where(flags, -torch.inf).amax(axes)
    return [each.nan_to_num(0.0, 0.0, 0.0).flatten().tolist() for each in ends]  # 0 where nothing is known
