"""Hugging Face models by name or path: the only module that uses transformers, imported when a column needs it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gauge.data.images import HALF

SIDE = 224  # pixels, where a config does not say
ELSEWHERE = re.compile(
    "backbone|auto_map|attn_implementation|experts_implementation|quantization_config|use_kernels|_hub"
)
MAX_PARAMETERS = 4 * 10**9
MAX_LAYERS = 256
MAX_NUMBER = 10**7  # of any other number in a config


@dataclass(frozen=True)
class Pretrained:
    """A model by its name or path, without weights; code that comes with it is never run.

    Text models have a tokenizer; `mean` and `std` normalise the colours of images, which run from 0 to 1.
    """

    source: str
    config: Mapping[str, Any]
    mean: tuple[float, ...] = HALF
    std: tuple[float, ...] = HALF
    tokenizer: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def for_texts(cls, source: str) -> "Pretrained":
        config = _config(source)
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
        config = _config(source)
        try:
            colours, _ = _transformers().ImageProcessingMixin.get_image_processor_dict(source)
        except OSError:  # there is no such file
            colours = {}
        return cls(source, config, *(tuple(colours.get(f"image_{name}") or HALF) for name in ("mean", "std")))

    @property
    def side(self) -> int:
        """Height and width of its images."""
        size = self.config.get("image_size") or SIDE
        return size if isinstance(size, int) else int(size[0])

    def network(self, *, weights: bool) -> Any:
        """The network in float32; without `weights` they are random, to be loaded later."""
        import torch  # not needed to read tables

        with _readable(self.source, "network") as library:
            if weights:
                return library.AutoModel.from_pretrained(self.source, trust_remote_code=False).float()
            config = library.AutoConfig.for_model(**_checked(self.config))
            with torch.device("meta"):  # counted before any memory is taken
                parameters = sum(weight.numel() for weight in library.AutoModel.from_config(config).parameters())
            if parameters > MAX_PARAMETERS:
                raise ValueError(f"its config asks for {parameters:,} parameters, the limit is {MAX_PARAMETERS:,}")
            return library.AutoModel.from_config(config, trust_remote_code=False).float()

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
        return cls(content["source"], content["config"], mean, std, loaded)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ValueError(
            "pretrained encoders need transformers; install it with: pip install 'gauge-ml[hf]'"
        ) from error
    return transformers


def _config(source: str) -> dict[str, Any]:
    with _readable(source, "config") as library:
        config: dict[str, Any] = library.AutoConfig.from_pretrained(source, trust_remote_code=False).to_dict()
    config.pop("_name_or_path", None)
    with _readable(source, "config"):
        return _checked(config)


def _checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config itself; an error if it asks for anything beside a network of a bounded size in the transformers library:
    a second model, kernels or code, which would come from the Hub when a saved classifier is loaded."""
    for name, value in config.items():
        if ELSEWHERE.search(name) and value:
            raise ValueError(
                f"its config sets {name!r} to {value!r}, which may be read from elsewhere; use another model"
            )
        numbers = value if isinstance(value, list | tuple) else [value]
        most = MAX_LAYERS if re.search("layers|depth", name) else MAX_NUMBER
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
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"no {what} can be read from {source!r} ({reason}); give the name of a model on the Hugging Face Hub, "
            "or a folder that save_pretrained wrote"
        ) from error
