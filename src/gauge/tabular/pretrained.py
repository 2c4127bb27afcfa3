"""Hugging Face models by name or path: all that is asked of transformers, which is imported when a column needs it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gauge.model.encoders._pretrained import HALF

SIDE = 224  # pixels, where a config does not say


@dataclass(frozen=True)
class Pretrained:
    """A model without its weights, which came by the name or path `source`; code of its own is never run.

    A text has a tokenizer; `mean` and `std` scale the colours of a picture, from 0 to 1, to what the network knows.
    """

    source: str
    config: Mapping[str, Any]
    mean: tuple[float, ...] = HALF
    std: tuple[float, ...] = HALF
    tokenizer: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of_text(cls, source: str) -> "Pretrained":
        config = _config(source)
        with _told(source, "tokenizer"):
            tokenizer = _transformers().AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        if not tokenizer.is_fast or len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ValueError(
                f"{source!r} has no tokenizer.json, the one form of a tokenizer that is read and saved; "
                "save a fast tokenizer beside the model, with tokenizer.save_pretrained"
            )
        return cls(source, config, tokenizer=tokenizer)

    @classmethod
    def of_image(cls, source: str) -> "Pretrained":
        config = _config(source)
        try:
            colours, _ = _transformers().ImageProcessingMixin.get_image_processor_dict(source)
        except OSError:  # there is no such file
            colours = {}
        return cls(source, config, *(tuple(colours.get(f"image_{name}") or HALF) for name in ("mean", "std")))

    @property
    def side(self) -> int:
        """How high and wide pictures are."""
        size = self.config.get("image_size") or SIDE
        return size if isinstance(size, int) else int(size[0])

    def network(self, *, weights: bool) -> Any:
        """The network, in float32; without `weights` they are random, to be loaded from elsewhere."""
        library = _transformers()
        with _told(self.source, "network"):
            if weights:
                return library.AutoModel.from_pretrained(self.source, trust_remote_code=False).float()
            config = library.AutoConfig.for_model(**self.config)
            return library.AutoModel.from_config(config, trust_remote_code=False).float()

    def to_json(self) -> dict[str, Any]:
        """All but the tokenizer, which is files."""
        return {name: value for name, value in vars(self).items() if name != "tokenizer"}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], tokenizer: Path) -> "Pretrained":
        """`tokenizer` is the folder where it lies, if there is one."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
        }
        if tokenizer.is_dir():
            fast = _transformers().PreTrainedTokenizerFast
            with _told(str(tokenizer), "tokenizer"):
                values["tokenizer"] = fast.from_pretrained(str(tokenizer), local_files_only=True)
        return cls(**values)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ValueError(
            "a pretrained encoder needs transformers; install it with: pip install 'gauge-ml[hf]'"
        ) from error
    return transformers


def _config(source: str) -> dict[str, Any]:
    library = _transformers()
    with _told(source, "config"):
        config: dict[str, Any] = library.AutoConfig.from_pretrained(source, trust_remote_code=False).to_dict()
    config.pop("_name_or_path", None)
    return config


@contextmanager
def _told(source: str, what: str) -> Iterator[None]:
    """The many ways in which transformers says that something is not there, in one."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"no {what} can be read from {source!r} ({reason}); give the name of a model on the Hugging Face Hub, "
            "or a folder that save_pretrained wrote"
        ) from error
