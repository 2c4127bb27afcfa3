"""Hugging Face models by name or path: the only module that uses transformers, imported when a column needs it."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gauge.data.images import HALF


@dataclass(frozen=True)
class Pretrained:
    """A model by its name or path, without weights; code that comes with it is never run. Of a model of texts and images
    it is the part that reads the column, of an encoder-decoder the encoder.

    Text models have a tokenizer; `mean` and `std` normalise the colours of images, which run from 0 to 1, and with `bgr` the
    model reads blue first.
    """

    source: str
    config: Mapping[str, Any]
    mean: tuple[float, ...] = HALF
    std: tuple[float, ...] = HALF
    tokenizer: Any = field(default=None, repr=False, compare=False)
    bgr: bool = False

    @classmethod
    def for_texts(cls, source: str) -> "Pretrained":
        config = _config(source, "text_config")
        with _readable(source, "tokenizer") as library:
            tokenizer = library.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        if not tokenizer.is_fast or len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ValueError(
                f"{source!r} has no tokenizer.json, the only tokenizer format that is supported; "
                "save a fast tokenizer beside the model, with tokenizer.save_pretrained"
            )
        return cls(source, config, tokenizer=tokenizer)

    @classmethod
    def for_images(cls, source: str) -> "Pretrained":
        model = cls(source, _config(source, "vision_config"), **_colours(source))
        if not 1 <= model.side <= 2048:
            raise ValueError(f"{source!r} reads images of {model.side} pixels; use a model of at most 2048")
        return model

    @property
    def side(self) -> int:
        """Height and width of its images."""
        size = self.config.get("image_size") or 224  # pixels, where a config does not say
        return size if isinstance(size, int) else int(size[0])

    def network(self, *, weights: bool) -> Any:
        """The network in float32; without `weights` they are random, to be loaded later."""
        with _readable(self.source, "network") as library:
            config = library.AutoConfig.for_model(**_checked(self.config))
            if (parameters := self.parameters()) > 4 * 10**9:
                raise ValueError(f"its config asks for {parameters:,} parameters, the limit is {4 * 10**9:,}")
            if weights:
                reading = {"trust_remote_code": False, "use_safetensors": True, "ignore_mismatched_sizes": True}
                whole, report = library.AutoModel.from_pretrained(
                    self.source, config=config, output_loading_info=True, **reading
                )
            else:
                whole, report = library.AutoModel.from_config(config, trust_remote_code=False), {}
            # of the family: an encoder that was saved alone says that it is none
            network = _encoder(whole)
            _check_weights(whole, network, **report)
            return network.float()

    def parameters(self) -> int:
        """How many numbers its network has, counted before any memory is taken."""
        import torch  # not needed to read tables

        with _readable(self.source, "network") as library, torch.device("meta"):
            config = library.AutoConfig.for_model(**_checked(self.config))
            return sum(weight.numel() for weight in _encoder(library.AutoModel.from_config(config)).parameters())

    def to_json(self) -> dict[str, Any]:
        """Everything but the tokenizer, which is saved as files."""
        return {name: value for name, value in vars(self).items() if name != "tokenizer"}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], tokenizer: Path) -> "Pretrained":
        """`tokenizer` is its folder, which image models do not have."""
        loaded = None
        if tokenizer.is_dir():
            with _readable(str(tokenizer), "tokenizer") as library:
                loaded = library.PreTrainedTokenizerFast.from_pretrained(str(tokenizer), local_files_only=True)
        mean, std = (tuple(content[name]) for name in ("mean", "std"))
        return cls(content["source"], content["config"], mean, std, loaded, content.get("bgr") is True)


def _encoder(whole: Any) -> Any:
    return whole.get_encoder() if type(whole.config)().is_encoder_decoder else whole


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ValueError(
            "pretrained encoders need transformers; install it with: pip install 'gauge-ml[hf]'"
        ) from error
    return transformers


def _config(source: str, part: str) -> dict[str, Any]:
    """The config of the model, or of this part of it where it has several."""
    with _readable(source, "config") as library:
        config = library.AutoConfig.from_pretrained(source, trust_remote_code=False)
        content: dict[str, Any] = getattr(config, part, config).to_dict()
        content.pop("_name_or_path", None)
        return _checked(content)


def _colours(source: str) -> dict[str, Any]:
    """How the image processor of the model changes colours that run from 0 to 1, as one mean and deviation for each."""
    with _readable(source, "image processor") as library:
        try:
            settings, _ = library.ImageProcessingMixin.get_image_processor_dict(source)
        except OSError as error:
            if "JSON" in str(error):
                raise
            return {}  # there is no such file
        scale = 255 * settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 255.0
        bgr = settings.get("do_flip_channel_order", False)  # those that do it never normalise, whatever mean they have
        mean, std = (_for_each_colour(settings.get(f"image_{name}") or 0.5) for name in ("mean", "std"))
        if not settings.get("do_normalize", not bgr):
            mean, std = (0.0,) * 3, (1.0,) * 3
        if settings.get("include_top"):  # EfficientNet divides twice
            std = tuple(each**2 for each in std)
        offset = 1.0 if settings.get("rescale_offset") else 0.0
        mean, std = tuple((each + offset) / scale for each in mean), tuple(each / scale for each in std)
        if not all(math.isfinite(each) for each in (*mean, *std)) or min(std) <= 0 or len((*mean, *std)) != 6:
            raise ValueError(
                f"its colours have the means {mean} and deviations {std}, which is no way to normalise three"
            )
        return {"mean": mean, "std": std, "bgr": bool(bgr)}


def _for_each_colour(value: float | list[float]) -> tuple[float, ...]:
    several = value if isinstance(value, list) else [value]
    return tuple(float(each) for each in (several if len(several) > 1 else several * 3))


def _check_weights(
    whole: Any,
    network: Any,
    missing_keys: Collection[str] = (),
    unexpected_keys: Collection[str] = (),
    mismatched_keys: Collection[tuple[Any, ...]] = (),
    **_: Any,
) -> None:
    """An error where the library would go on with random weights, or leave out layers, as config and weights differ."""
    used = {id(weight) for weight in (*network.parameters(), *network.buffers())}
    every = (*whole.named_parameters(remove_duplicate=False), *whole.named_buffers(remove_duplicate=False))
    names = {name for name, weight in every if id(weight) in used}
    kinds = {re.sub(r"\d+", "#", name) for name in names}
    unused = "pooler|mask_token|masked"  # hidden states do not depend on them, and classifiers are saved without
    random = sorted(name for name in names.intersection(missing_keys) if not re.search(unused, name))
    beyond = sorted(name for name in unexpected_keys if re.sub(r"\d+", "#", name) in kinds)
    other = sorted(str(name) for name, *_ in mismatched_keys if name in names)
    for reason, several in (("missing", random), ("of another shape", other), ("more than its config has", beyond)):
        if several:
            raise ValueError(f"{len(several)} of its weights are {reason}, first {several[0]!r}")


def _checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config itself; an error if it asks for anything beside a network of a bounded size in the transformers library:
    a second model, kernels or code, which would come from the Hub when a saved classifier is loaded."""
    if config.get("model_type") == "timm_wrapper":
        raise ValueError("it is a model of timm, whose config may name files; use one of the transformers library")
    elsewhere = "backbone|auto_map|attn_implementation|experts_implementation|quantization_config|use_kernels|_hub"
    for name, value in config.items():
        if re.search(elsewhere, name) and value:
            raise ValueError(
                f"its config sets {name!r} to {value!r}, which may be read from elsewhere; use another model"
            )
        numbers = value if isinstance(value, list | tuple) else [value]
        most = 256 if re.search("layers|depth", name) else 10**7
        if any(isinstance(number, int) and abs(number) > most for number in numbers):
            raise ValueError(f"its config sets {name!r} to {value!r}; at most {most:,} is supported")
        for inner in numbers:
            if isinstance(inner, Mapping):
                _checked({str(key): setting for key, setting in inner.items()})
    return dict(config)


@contextmanager
def _readable(source: str, what: str) -> Iterator[Any]:
    """The transformers library; its various errors for something that cannot be read become one."""
    library = _transformers()
    try:
        yield library
    except Exception as error:  # those of damaged files and impossible configs share no base class but this
        reason = " ".join(str(error).splitlines()[:2])
        raise ValueError(
            f"no {what} can be read from {source!r} ({reason}); give the name of a model on the Hugging Face Hub, "
            "or a folder that save_pretrained wrote"
        ) from error
