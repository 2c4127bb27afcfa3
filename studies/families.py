"""Which families of Transformers `gauge.wrap` can gate, tried on small models with random weights.

    python studies/families.py

For each family: the largest difference of a logit between the model and the wrapped model with open gates, the share of a
token's effect that passes its closed gate, and whether its head averages tokens; or the reason why it is refused.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from gauge import attention_bias, wrap
from gauge.experiments.recording import origin, write_record

RESULTS = Path(__file__).parent / "results" / "families.json"
Inputs = dict[str, Tensor]

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
COMMON = SIZES | {"initializer_range": 0.3, "num_labels": 3}
WORDS = COMMON | {"vocab_size": 20, "max_position_embeddings": 64, "pad_token_id": 0}
SMALL = WORDS | {"embedding_size": 8}
IMAGE = COMMON | {"image_size": 16, "patch_size": 8}
GROUPED = WORDS | {"num_key_value_heads": 2}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
SPECIAL = {"bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 20, "n_positions": 32, "initializer_range": 0.3}
SOUND = WORDS | {
    "conv_dim": (8, 8),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 8,
}
WHISPER = {
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "num_labels": 3,
    "num_mel_bins": 8,
    "max_source_positions": 10,
    "classifier_proj_size": 8,
    "vocab_size": 20,
    "init_std": 0.3,
    "pad_token_id": 0,
}
TWO_TOWERS = {"vision_config": IMAGE, "text_config": WORDS, "num_labels": 3}

FAMILIES: dict[
    str, tuple[str, dict[str, Any]]
] = {  # name in transformers -> kind of input, options of its configuration
    **dict.fromkeys(("Bert", "Roberta", "XLMRoberta", "Camembert", "MPNet", "Ernie", "LayoutLM"), ("text", WORDS)),
    **dict.fromkeys(("MegatronBert", "NomicBert", "FNet", "Yoso", "GPTNeoX", "Phi", "Falcon"), ("text", WORDS)),
    **dict.fromkeys(("Albert", "Electra"), ("text", SMALL)),
    **dict.fromkeys(("EuroBert", "Llama", "Mistral", "Qwen2", "Qwen3"), ("text", GROUPED)),
    "Gemma": ("text", GROUPED | {"head_dim": 8}),
    "MobileBert": (
        "text",
        SMALL | {"intra_bottleneck_size": 16, "true_hidden_size": 16, "num_feedforward_networks": 1},
    ),
    "DistilBert": (
        "text",
        {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "vocab_size": 20, "num_labels": 3},
    ),
    "ModernBert": ("text", WORDS | SPECIAL | {"global_attn_every_n_layers": 2, "local_attention": 8}),
    "Deberta": ("text", WORDS | RELATIVE | {"type_vocab_size": 0}),
    "DebertaV2": ("text", WORDS | RELATIVE | {"position_buckets": 8}),
    "RoFormer": ("text", WORDS | {"embedding_size": 16}),
    "Esm": ("text", WORDS | {"position_embedding_type": "rotary", "mask_token_id": 3}),
    "GPT2": ("text", GPT | {"pad_token_id": 0, "num_labels": 3}),
    "Bloom": (
        "text",
        {"vocab_size": 20, "hidden_size": 16, "n_layer": 2, "n_head": 2, "num_labels": 3, "pad_token_id": 0},
    ),
    "BigBird": ("long text", WORDS | {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}),
    "ConvBert": ("text", SMALL | {"conv_kernel_size": 3}),
    "Longformer": ("text", WORDS | {"attention_window": 4}),
    "Nystromformer": ("text", WORDS | {"num_landmarks": 4, "segment_means_seq_len": 8}),
    **dict.fromkeys(("ViT", "DeiT", "Dinov2", "Dinov2WithRegisters", "Beit", "ViTMSN", "IJepa"), ("image", IMAGE)),
    **dict.fromkeys(("CLIP", "Siglip", "MetaClip2"), ("image", TWO_TOWERS)),
    "VideoMAE": ("video", IMAGE | {"num_frames": 2, "tubelet_size": 2}),
    "Vivit": ("video", IMAGE | {"num_frames": 2, "tubelet_size": [2, 8, 8]}),
    **dict.fromkeys(("Wav2Vec2", "Hubert", "WavLM", "Data2VecAudio"), ("waveform", SOUND)),
    "Whisper": ("spectrogram", WHISPER),
}
TASKS = ("ForSequenceClassification", "ForImageClassification", "ForVideoClassification", "ForAudioClassification")


def build(name: str) -> tuple[nn.Module, Inputs]:
    """A small model of the family, in eval mode, and two samples for it."""
    kind, options = FAMILIES[name]
    (task, *_) = (task for task in TASKS if hasattr(transformers, name + task))
    config = getattr(transformers, f"{name}Config")(**options)
    draw = torch.Generator().manual_seed(0)
    words = torch.randint(4, 20, (2, 24 if kind == "long text" else 8), generator=draw)
    inputs = {
        "image": {"pixel_values": torch.randn(2, 3, 16, 16, generator=draw)},
        "video": {"pixel_values": torch.randn(2, 2, 3, 16, 16, generator=draw)},
        "waveform": {"input_values": torch.randn(2, 400, generator=draw)},
        "spectrogram": {"input_features": torch.randn(2, 8, 20, generator=draw)},
    }.get(kind, {"input_ids": words, "attention_mask": torch.ones_like(words)})
    family = getattr(transformers, name + task)
    try:
        model = family._from_config(config, attn_implementation="sdpa")
    except ValueError:  # it has no such attention
        model = family._from_config(config, attn_implementation="eager")
    return model.eval(), inputs


@torch.no_grad()
def tried(model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """What gates do to the model, or why it is refused."""
    wrapped = wrap(model)
    try:
        classifier = wrapped.read(**inputs)
        opened = classifier(classifier.tokens, attention_bias(torch.ones(classifier.visible.shape)))
    except ValueError as error:
        return {"refused": str(error)}
    difference = float((opened - model(**inputs).logits).abs().max())
    return {"error": difference, "leak": wrapped.leak, "averages": wrapped.pools, "fixed": classifier.fixed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    families = {}
    for name, (kind, _) in FAMILIES.items():
        torch.manual_seed(0)
        families[name] = {"input": kind, **tried(*build(name))}
        print(name, families[name])
    record = origin(arguments) | {"transformers": transformers.__version__, "families": families}
    write_record(arguments.out, record)


if __name__ == "__main__":
    main()
