"""Which families of Transformers `gauge.wrap` can gate, tried on small models with random weights.

    python studies/families.py

Needs the extras `hf` and `timm`. Every model type of the transformers library with a class for the classification of
sequences, images, videos or sound is here, but LayoutLMv2 and Dinat, which need packages that are built from source; some
without such a class have a linear head on their first position. For each family: the largest difference of a logit between
the model and the wrapped model with open gates, the share of a token's effect that passes its closed gate, and whether its
head averages tokens or reads the last one; or the reason why it is refused.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import timm
import torch
import transformers
from torch import Tensor, nn

from gauge import attention_bias, wrap
from gauge.wrapping.classifier import logits_of
from gauge_lab.recording import origin, write_record

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
CLASSES = {"num_labels": 3, "pad_token_id": 0}
DECODER = GROUPED | {"head_dim": 8, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = DECODER | {"num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
LATENT = WORDS | {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
ROUTED = LATENT | {
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
}
XLM = {
    "emb_dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "n_words": 20,
    "num_labels": 3,
    "init_std": 0.3,
    "embed_init_std": 0.3,
}
BOTH = {
    **{f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (("layers", 2), ("ffn_dim", 32))},
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "d_model": 16,
    "vocab_size": 20,
    "num_labels": 3,
}
STAGES = {"depths": [2, 2], "num_heads": [2, 2], "embed_dim": 16, "window_size": 2, "patch_size": 4, "num_labels": 3}
PYRAMID = {
    "hidden_sizes": [16, 16],
    "depths": [2, 2],
    "num_encoder_blocks": 2,
    "num_attention_heads": [2, 2],
    "mlp_ratios": [2, 2],
    "sr_ratios": [2, 1],
    "num_labels": 3,
}
CONVOLUTIONAL = {"hidden_sizes": [8, 8], "depths": [2, 2], "num_labels": 3}
CLIPS = {"crop_size": 16, "patch_size": 8, "frames_per_clip": 2, "tubelet_size": 2, "num_labels": 3}
PREDICTED = {
    "pred_hidden_size": 12,
    "pred_num_attention_heads": 2,
    "pred_num_hidden_layers": 2,
    "initializer_range": 0.3,
}
SERIES = {"num_input_channels": 2, "context_length": 32, "patch_length": 4, "patch_stride": 4, "num_targets": 3}
STATE_SPACE = {
    "num_hidden_layers": 4,
    "layers_block_type": ["mamba", "hybrid"] * 2,
    "use_mamba_kernels": False,
    "n_mamba_heads": 2,
    "mamba_d_state": 4,
    "mamba_headdim": 16,
    "mamba_ngroups": 1,
}
HIERA = {
    "image_size": [32, 32],
    "patch_size": [3, 3],
    "patch_stride": [4, 4],
    "patch_padding": [1, 1],
    "query_stride": [2, 2],
    "masked_unit_size": [4, 4],
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 2],
    "num_query_pool": 1,
    "num_labels": 3,
}
LEVIT = {
    "image_size": 64,
    "hidden_sizes": [16] * 3,
    "num_attention_heads": [2] * 3,
    "depths": [1] * 3,
    "key_dim": [8] * 3,
    "num_labels": 3,
}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 20}
TWO_KINDS = {"layer_types": ["linear_attention", "full_attention"]} | {
    f"linear_{name}": size
    for name, size in (("num_key_heads", 2), ("num_value_heads", 2), ("key_head_dim", 8), ("value_head_dim", 8))
}
CVT = {
    **{
        name: [value] * 2 for name, value in (("embed_dim", 16), ("mlp_ratio", 2.0), ("qkv_projection_method", "dw_bn"))
    },
    **{f"{name}_rate": [0.0] * 2 for name in ("attention_drop", "drop", "drop_path")},
    **{name: [1, 1] for name in ("padding_kv", "padding_q", "stride_q", "num_heads")},
    "depth": [1, 2],
    "patch_sizes": [7, 3],
    "patch_stride": [4, 2],
    "patch_padding": [2, 1],
    "cls_token": [False, True],
    "qkv_bias": [True, True],
    "kernel_qkv": [3, 3],
    "stride_kv": [2, 2],
    "num_labels": 3,
}
PATCHES = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
WINDOWS = {"img_size": 32, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 2), "window_size": 4}
IN_PIXELS = {"img_size": 64}
NARROW = {"embed_dim": 32, "depth": 2, "num_heads": 2}

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
    **dict.fromkeys(("Wav2Vec2", "Hubert", "WavLM"), ("waveform", SOUND)),
    "Data2VecAudio": ("waveform", SOUND | {"conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 2}),
    "Whisper": ("spectrogram", WHISPER),
    **dict.fromkeys(
        ("Data2VecText", "RoCBert", "RobertaPreLayerNorm", "XLMRobertaXL", "IBert", "Luke"), ("text", WORDS)
    ),
    **dict.fromkeys(("Gte", "JinaEmbeddingsV3", "Esmc", "MarkupLM", "Mra", "BioGpt", "Persimmon"), ("text", WORDS)),
    "RemBert": ("text", WORDS | {"input_embedding_size": 16, "output_embedding_size": 16}),
    "Xmod": ("text", WORDS | {"languages": ["en_XX"], "default_language": "en_XX"}),
    "Lilt": ("text", WORDS | {"hidden_size": 24, "channel_shrink_ratio": 2}),
    "LayoutLMv3": ("text", WORDS | {"coordinate_size": 2, "shape_size": 4, "visual_embed": False}),
    "Tapas": ("text", WORDS | {"type_vocab_sizes": [3, 4, 4, 2, 4, 4, 4]}),
    "SqueezeBert": ("text", WORDS | {"embedding_size": 16, "q_groups": 2, "k_groups": 2, "v_groups": 2}),
    "Canine": ("text", WORDS | {"local_transformer_stride": 8, "num_hash_buckets": 8, "downsampling_rate": 2}),
    **dict.fromkeys(("XLM", "Flaubert"), ("text", XLM)),
    "XLNet": ("text", {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, "vocab_size": 20, "num_labels": 3}),
    "Funnel": (
        "text",
        {"block_sizes": [2, 2], "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32, "num_labels": 3},
    ),
    "Reformer": (
        "long text",
        WORDS | {"attn_layers": ["local", "lsh"], "axial_pos_embds": False, "num_buckets": 2, "attention_head_size": 8},
    ),
    "Perceiver": (
        "text",
        {"num_latents": 4, "d_latents": 16, "d_model": 16, "num_self_attends_per_block": 2} | CLASSES,
    ),
    **dict.fromkeys(("OpenAIGPT", "GPTBigCode"), ("text", GPT | CLASSES)),
    "GPTJ": ("text", GPT | CLASSES | {"rotary_dim": 4}),
    "CTRL": ("text", GPT | CLASSES | {"dff": 32}),
    "GPTNeo": (
        "text",
        WORDS | {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]], "window_size": 3},
    ),
    "Mpt": ("text", {"d_model": 16, "n_heads": 2, "n_layers": 2, "vocab_size": 20, "initializer_range": 0.3} | CLASSES),
    "OPT": ("text", WORDS | {"ffn_dim": 32, "word_embed_proj_dim": 16, "init_std": 0.3}),
    **dict.fromkeys(
        ("Arcee", "DiffLlama", "Doge", "Exaone4", "Gemma2", "Gemma3Text", "Glm", "Glm4"), ("text", DECODER)
    ),
    **dict.fromkeys(("Helium", "HunYuanDenseV1", "Ministral", "Ministral3", "Nemotron", "Olmo"), ("text", DECODER)),
    **dict.fromkeys(("Olmo2", "Olmo3", "Phi3", "SeedOss", "SmolLM3", "StableLm", "Starcoder2"), ("text", DECODER)),
    **dict.fromkeys(("Mixtral", "Qwen2Moe", "Qwen3Moe", "Phimoe", "JetMoe", "HunYuanMoEV1"), ("text", EXPERTS)),
    **dict.fromkeys(("GptOss", "MiniMax"), ("text", EXPERTS)),
    "Qwen3Next": ("text", EXPERTS | {"layer_types": ["linear_attention", "full_attention"]}),
    "Jamba": ("text", EXPERTS | {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False}),
    "MiniCPM3": ("text", LATENT),
    **dict.fromkeys(("DeepseekV2", "DeepseekV3"), ("text", ROUTED)),
    "ModernBertDecoder": ("text", WORDS | SPECIAL | {"global_attn_every_n_layers": 2, "local_attention": 4}),
    **dict.fromkeys(("Bart", "MBart", "PLBart", "Mvp", "BigBirdPegasus"), ("text", BOTH)),
    **dict.fromkeys(("T5", "MT5", "UMT5"), ("text", T5)),
    "T5Gemma2": ("text", {"encoder": {"text_config": DECODER, "vision_config": IMAGE}, "decoder": DECODER}),
    "LED": ("text", BOTH | {"attention_window": 4}),
    "CohereCompassText": ("text", DECODER | {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}),
    "Qwen3_5Text": ("text", DECODER | TWO_KINDS),
    "Qwen3_5": ("text", {"text_config": DECODER | TWO_KINDS, "vision_config": SIZES | {"depth": 1}, "num_labels": 3}),
    "ModernVBert": (
        "text",
        {
            "text_config": WORDS | SPECIAL | {"global_attn_every_n_layers": 2, "local_attention": 8},
            "vision_config": IMAGE,
            "num_labels": 3,
        },
    ),
    "UltraVBert": ("text", {"text_config": WORDS, "vision_config": IMAGE, "num_labels": 3}),
    "Zamba": ("text", DECODER | STATE_SPACE | {"mamba_dt_rank": 4}),
    "Data2VecVision": ("image", IMAGE),
    "ImageGPT": ("pixels", GPT | {"num_labels": 3}),
    **dict.fromkeys(("Swin", "Swinv2", "DonutSwin"), ("image", STAGES | {"image_size": 16})),
    **dict.fromkeys(("ConvNext", "ConvNextV2"), ("image", CONVOLUTIONAL | {"num_stages": 2})),
    "ResNet": ("image", CONVOLUTIONAL | {"embedding_size": 8}),
    "PoolFormer": ("image", CONVOLUTIONAL | {"num_encoder_blocks": 2, "patch_sizes": [3, 3], "strides": [2, 2]}),
    "Pvt": (
        "image",
        PYRAMID | {"image_size": 16, "sequence_reduction_ratios": [2, 1], "patch_sizes": [4, 2], "strides": [4, 2]},
    ),
    **dict.fromkeys(("PvtV2", "Segformer"), ("image", PYRAMID | {"patch_sizes": [7, 3], "strides": [4, 2]})),
    "FocalNet": ("image", {"image_size": 16, "embed_dim": 16, "depths": [2, 2], "num_labels": 3}),
    "MobileViT": ("large image", {"image_size": 64, "patch_size": 2, "hidden_sizes": [16, 16, 16], "num_labels": 3}),
    "MobileViTV2": ("large image", {"image_size": 64, "width_multiplier": 0.25, "num_labels": 3}),
    "SwiftFormer": ("image", {"depths": [2, 2], "embed_dims": [16, 16], "num_labels": 3}),
    "Timesformer": ("video", IMAGE | {"num_frames": 2}),
    "VJEPA2": ("clip", CLIPS | SIZES | PREDICTED | {"num_hidden_layers": 4}),
    "AST": ("mel", IMAGE | {"num_mel_bins": 16, "max_length": 32, "frequency_stride": 8, "time_stride": 8}),
    **dict.fromkeys(("SEW", "SEWD"), ("waveform", SOUND | {"squeeze_factor": 1, "position_buckets": 8})),
    **dict.fromkeys(("UniSpeech", "UniSpeechSat"), ("waveform", SOUND | {"num_codevectors_per_group": 4})),
    "Wav2Vec2Conformer": ("waveform", SOUND | {"conv_depthwise_kernel_size": 3}),
    "Wav2Vec2Bert": ("features", COMMON | {"feature_projection_input_dim": 8, "classifier_proj_size": 8}),
    **dict.fromkeys(("PatchTST", "PatchTSMixer"), ("series", SERIES)),
    **dict.fromkeys(("AXK1", "AXK2", "Mistral4"), ("text", ROUTED)),
    "Ultrabert": ("text", WORDS),
    "Gemma3": ("text", {"text_config": DECODER, "vision_config": IMAGE, "num_labels": 3, "mm_tokens_per_image": 4}),
    "T5Gemma": ("text", {"encoder": DECODER, "decoder": DECODER, "num_labels": 3}),
    "Zamba2": ("text", DECODER | STATE_SPACE),
    "VisualBert": ("text and regions", WORDS | {"visual_embedding_dim": 8}),
    "Vilt": ("text and image", WORDS | IMAGE),
    "Siglip2": ("patches", TWO_TOWERS | {"vision_config": IMAGE | {"num_patches": 16}}),
    "Hiera": ("wide image", HIERA),
    "Levit": ("large image", LEVIT),
    "Bit": ("wide image", CONVOLUTIONAL | {"embedding_size": 8, "num_groups": 4}),
    "RegNet": ("wide image", CONVOLUTIONAL | {"embedding_size": 8, "groups_width": 4}),
    "MobileNetV2": ("large image", {"depth_multiplier": 0.35, "num_labels": 3}),
    "MobileNetV1": ("large image", {"depth_multiplier": 0.25, "num_labels": 3}),
    "EfficientNet": ("large image", {"width_coefficient": 0.1, "depth_coefficient": 0.1, "hidden_dim": 128}),
    **{name: ("large image", {"num_labels": 3}) for name in ("HGNetV2", "PPLCNet", "TextNet")},
    "Cvt": ("large image", CVT),
    "VideoPrism": (
        "clip",
        IMAGE | {"num_frames": 2, "tubelet_size": [1, 8, 8], "num_spatial_layers": 2, "num_temporal_layers": 1},
    ),
    "Lxmert": (
        "text and boxes",
        WORDS | {"num_hidden_layers": {}, "l_layers": 2, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 8},
    ),
    "Flava": ("text and image", {"text_config": WORDS, "image_config": IMAGE, "multimodal_config": SIZES}),
    "BridgeTower": (
        "text and image",
        SIZES
        | {
            "text_config": WORDS | {"num_hidden_layers": 3},
            "vision_config": IMAGE | {"hidden_size": 64, "num_hidden_layers": 3},
        },
    ),
    "Blip": ("text and image", {"text_config": WORDS | {"encoder_hidden_size": 16}, "vision_config": IMAGE}),
}
HEADED = {  # models without a class for classification -> what they return of a sample
    "Flava": "multimodal_embeddings",
    "BridgeTower": "pooler_output",
    "Blip": "text_embeds",
    "Lxmert": "pooled_output",
}
CONFIGS = {"VideoPrism": "VideoPrismVisionConfig"}  # where it has another name than the class
TIMM: dict[str, dict[str, Any]] = {  # name in timm -> options of its constructor
    **dict.fromkeys(("vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "deit3_small_patch16_224"), PATCHES),
    **dict.fromkeys(("vit_small_patch14_reg4_dinov2", "vit_small_patch16_dinov3", "flexivit_small"), PATCHES),
    **dict.fromkeys(("vit_base_patch16_clip_224", "vit_base_patch16_siglip_224", "aimv2_large_patch14_224"), PATCHES),
    **dict.fromkeys(("vit_so150m_patch16_reg4_map_256", "vit_medium_patch16_gap_240"), PATCHES),
    **dict.fromkeys(("vit_relpos_small_patch16_224", "vit_srelpos_small_patch16_224"), PATCHES),
    **dict.fromkeys(("vit_small_patch16_rope_224", "vit_base_patch16_rope_reg1_gap_256"), PATCHES),
    **dict.fromkeys(("vit_pe_core_base_patch16_224", "eva_giant_patch14_224", "eva02_tiny_patch14_224"), PATCHES),
    **dict.fromkeys(("beit_base_patch16_224", "beitv2_base_patch16_224", "beit3_base_patch16_224"), PATCHES),
    **dict.fromkeys(("cait_xxs24_224", "xcit_nano_12_p8_224", "samvit_base_patch16_224"), PATCHES),
    "convit_tiny": PATCHES | {"local_up_to_layer": 1},
    "naflexvit_base_patch16_gap": {"embed_dim": 32, "depth": 2, "num_heads": 2},
    **dict.fromkeys(("swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256"), WINDOWS),
    **dict.fromkeys(("coat_tiny", "pit_ti_224", "twins_pcpvt_small", "tnt_s_patch16_224", "mixer_s32_224"), IN_PIXELS),
    **dict.fromkeys(("volo_d1_224", "hiera_tiny_224", "mvitv2_tiny", "maxvit_rmlp_pico_rw_256"), IN_PIXELS),
    "vitamin_small_224": IN_PIXELS,
    **dict.fromkeys(("gcvit_xxtiny", "levit_128s", "levit_conv_128s", "nest_tiny", "visformer_tiny"), IN_PIXELS),
    **dict.fromkeys(("efficientformerv2_s0", "efficientvit_m0", "coat_lite_tiny", "twins_svt_small"), IN_PIXELS),
    **dict.fromkeys(("gmlp_ti16_224", "resmlp_12_224", "sequencer2d_s"), IN_PIXELS),
    **{
        name: {}
        for name in ("csatv2", "cpubone_nano", "efficientvit_b0", "fastvit_sa12", "focalnet_tiny_srf", "iformer_t")
    },
    **{name: {} for name in ("hieradet_small", "lowformer_b0", "caformer_s18", "mobilenetv5_base", "nextvit_small")},
    **{name: {} for name in ("pvt_v2_b0", "shvit_s1", "swiftformer_xs", "tiny_vit_5m_224", "efficientvim_m1")},
    **{name: {} for name in ("repvit_m1", "mobilenetv4_hybrid_medium", "lambda_resnet26t", "regnetx_002")},
    **{name: {"img_size": 256} for name in ("botnet26t_256", "halonet26t")},
    "efficientformer_l1": {"img_size": 224},
    "swinv2_cr_tiny_224": IN_PIXELS | {"window_size": 4},
    "crossvit_9_240": {"img_size": 48, "img_scale": (1.0, 1.0), "embed_dim": (32, 32), "num_heads": (2, 2)},
    **dict.fromkeys(("gemma4_vit_167m", "qwen3_vit_88m", "vit_tiny_r_s16_p8_224"), IN_PIXELS | NARROW),
    "deepseek_vit_412m": NARROW | {"img_size": 56},
    **dict.fromkeys(("naflexvit_base_patch16_map", "naflexvit_base_patch16_siglip"), NARROW),
    **dict.fromkeys(("vit_base_patch16_rpn_224", "vit_base_patch16_18x2_224", "vit_base_patch16_xp_224"), PATCHES),
    **dict.fromkeys(("vit_base_patch16_siglip_gap_224", "vit_base_patch14_reg1_tipsv2"), PATCHES),
    **dict.fromkeys(("vit_base_patch16_radio_v3", "vit_relpos_base_patch16_clsgap_224"), PATCHES),
    **dict.fromkeys(("vit_small_patch16_rope_mixed_224", "vit_base_patch16_reg4_gap_256"), PATCHES),
    **dict.fromkeys(("vit_xsmall_patch16_clip_224", "vit_dpwee_patch16_reg1_gap_256"), PATCHES),
    **{name: {} for name in ("mobilevit_xxs", "mobilevitv2_050", "davit_tiny", "edgenext_xx_small", "resnet18")},
}
TASKS = (
    *("ForSequenceClassification", "ForImageClassification", "ForVideoClassification", "ForAudioClassification"),
    *("ForClassification", "ForTimeSeriesClassification", "ForQuestionAnswering"),
)


class Headed(nn.Module):
    """A linear head on the first position of what a model returns."""

    def __init__(self, model: nn.Module, output: str) -> None:
        super().__init__()
        self.model, self.output, self.classifier = model, output, nn.LazyLinear(3)

    def forward(self, **inputs: Tensor) -> Tensor:
        states = getattr(self.model(**inputs), self.output)
        logits: Tensor = self.classifier(states[:, 0] if states.ndim == 3 else states)
        return logits


def build(name: str) -> tuple[nn.Module, Inputs]:
    """A small model of the family, in eval mode, and two samples for it."""
    kind, options = FAMILIES[name]
    config = getattr(transformers, CONFIGS.get(name, f"{name}Config"))(**options)
    draw = torch.Generator().manual_seed(0)
    words = torch.randint(4, 20, (2, 24 if kind == "long text" else 8), generator=draw)
    inputs = {
        "image": {"pixel_values": torch.randn(2, 3, 16, 16, generator=draw)},
        "large image": {"pixel_values": torch.randn(2, 3, 64, 64, generator=draw)},
        "pixels": {"input_ids": words},
        "clip": {"pixel_values_videos": torch.randn(2, 2, 3, 16, 16, generator=draw)},
        "mel": {"input_values": torch.randn(2, 32, 16, generator=draw)},
        "features": {"input_features": torch.randn(2, 12, 8, generator=draw)},
        "series": {"past_values": torch.randn(2, 32, 2, generator=draw)},
        "wide image": {"pixel_values": torch.randn(2, 3, 32, 32, generator=draw)},
        "text and image": {"input_ids": words, "pixel_values": torch.randn(2, 3, 16, 16, generator=draw)},
        "text and boxes": {
            "input_ids": words,
            "visual_feats": torch.randn(2, 5, 8, generator=draw),
            "visual_pos": torch.rand(2, 5, 4, generator=draw),
        },
        "text and regions": {
            "input_ids": words,
            "attention_mask": torch.ones_like(words),
            "visual_embeds": torch.randn(2, 5, 8, generator=draw),
            "visual_attention_mask": torch.ones(2, 5),
        },
        "patches": {
            "pixel_values": torch.randn(2, 16, 192, generator=draw),
            "pixel_attention_mask": (torch.arange(16) < torch.tensor([[16], [12]])).long(),
            "spatial_shapes": torch.tensor([[4, 4], [4, 3]]),
        },
        "video": {"pixel_values": torch.randn(2, 2, 3, 16, 16, generator=draw)},
        "waveform": {"input_values": torch.randn(2, 400, generator=draw)},
        "spectrogram": {"input_features": torch.randn(2, 8, 20, generator=draw)},
    }.get(kind, {"input_ids": words, "attention_mask": torch.ones_like(words)})
    task = "Model" if name in HEADED else next(task for task in TASKS if hasattr(transformers, name + task))
    family = getattr(transformers, name + task)
    try:
        model = family._from_config(config, attn_implementation="sdpa")
    except ValueError:  # it has no such attention
        model = family._from_config(config, attn_implementation="eager")
    if name not in HEADED:
        return model.eval(), inputs
    headed = Headed(model, HEADED[name]).eval()
    with torch.no_grad():
        headed(**inputs)  # the head finds its width
    return headed, inputs


def build_timm(name: str) -> tuple[nn.Module, Inputs]:
    """A small model of timm, in eval mode, and two images for it."""
    options = TIMM[name]
    size = options.get("img_size", 64)
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    return timm.create_model(name, num_classes=3, **options).eval(), {"x": images}


@torch.no_grad()
def tried(model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """What gates do to the model, or why it is refused."""
    try:
        wrapped = wrap(model)
        classifier = wrapped.read(**inputs)
        opened = classifier(classifier.tokens, attention_bias(torch.ones(classifier.visible.shape)))
    except ValueError as error:
        return {"refused": str(error)}
    difference = float((opened - logits_of(model(**inputs), model)).abs().max())
    reads = {"averages": wrapped.average is not None, "reads_last": wrapped.reads_last}
    return {"error": difference, "leak": wrapped.leak, "fixed": classifier.fixed} | reads


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
    for name in TIMM:
        torch.manual_seed(0)
        families[f"timm {name}"] = {"input": "image", **tried(*build_timm(name))}
        print(name, families[f"timm {name}"])
    versions = {"transformers": transformers.__version__, "timm": timm.__version__}
    record = origin(arguments) | versions | {"families": families}
    write_record(arguments.out, record)


if __name__ == "__main__":
    main()
