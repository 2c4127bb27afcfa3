"""Small Transformers of Hugging Face with random weights, and a batch for each."""

import json
from pathlib import Path

import torch

from gauge.randomness import seeded

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = SIZES | {"vocab_size": 20, "max_position_embeddings": 32, "initializer_range": 0.3, "num_labels": 3}
IMAGE = SIZES | {"image_size": 16, "patch_size": 8, "initializer_range": 0.3, "num_labels": 3}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "vocab_size": 20, "initializer_range": 0.3}
MODELS = {
    "Bert": ("ForSequenceClassification", WORDS),
    "DistilBert": ("ForSequenceClassification", DISTIL | {"num_labels": 3}),
    "ViT": ("ForImageClassification", IMAGE),
    "Dinov2": ("ForImageClassification", IMAGE),  # its head averages tokens
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORD_PIECES = "itch ##es a lot grew fast bleeds at night , seen on day ##0 1 2"


def small(name: str) -> torch.nn.Module:
    import transformers

    kind, options = MODELS[name]
    with seeded(0, name):
        return getattr(transformers, name + kind)(getattr(transformers, f"{name}Config")(**options)).eval()


def batch(name: str) -> dict[str, torch.Tensor]:
    """Two samples: texts of seven and five tokens, padded, or images of 2 x 2 patches."""
    draw = torch.Generator().manual_seed(0)
    if "Image" in MODELS[name][0]:
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=draw)}
    tokens = torch.randint(3, 20, (2, 7), generator=draw)
    tokens[1, 5:] = 0
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long()}


def save_bert(folder: Path) -> Path:
    """It knows pieces of words: 'itches' is two, and most numbers are unknown."""
    import tokenizers
    import transformers

    numbers = {word: number for number, word in enumerate([*SPECIAL, *WORD_PIECES.split()])}
    content = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token="[UNK]"))
    content.normalizer = tokenizers.normalizers.Lowercase()
    content.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    content.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    transformers.PreTrainedTokenizerFast(tokenizer_object=content, **names).save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(numbers), initializer_range=0.5, **SIZES)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def save_vit(folder: Path) -> Path:
    import transformers

    config = transformers.ViTConfig(image_size=32, patch_size=8, initializer_range=0.5, **SIZES)
    transformers.ViTModel(config).save_pretrained(folder)
    colours = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    (folder / "preprocessor_config.json").write_text(json.dumps(colours))
    return folder
