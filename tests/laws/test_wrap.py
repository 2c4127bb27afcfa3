"""wrap(): open gates keep the logits of every family, closed ones remove tokens, and the two parameters can be trained."""

import pytest
import torch
import torch.nn.functional as F
from helpers import unchecked
from small_transformers import DISTIL, IMAGE, WORDS
from small_transformers import batch as small_batch
from torch import nn

from gauge import Gate, wrap
from gauge.backbones.blocks import find_blocks
from gauge.paper.gauge import attention_bias
from gauge.randomness import seeded

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # in DeBERTa's module

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 20}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 20, "n_positions": 32, "initializer_range": 0.3}


class MeanPooled(nn.Module):
    """A classifier of one's own: a T5 encoder, the mean of what it returns, and a head."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask):
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head((states * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True))


def model(name, kind, implementation="sdpa", **options):
    config = getattr(transformers, f"{name}Config")(**options)
    return getattr(transformers, f"{name}{kind}")._from_config(config, attn_implementation=implementation)


def text(name, **options):
    return lambda: model(name, "ForSequenceClassification", **(WORDS | options))


def image(name, **options):
    return lambda: model(name, "ForImageClassification", **(IMAGE | options))


def clip_vision():
    return model("CLIP", "ForImageClassification", vision_config=IMAGE, text_config=WORDS, num_labels=3)


DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}
MODERN = SPECIAL | {"global_attn_every_n_layers": 2, "local_attention": 8}
TEXTS = {
    "BERT": text("Bert"),
    "ALBERT": text("Albert", embedding_size=8),
    "BERT eager": lambda: model("Bert", "ForSequenceClassification", "eager", **WORDS),
    "RoBERTa": text("Roberta", pad_token_id=0),
    "DistilBERT": lambda: model("DistilBert", "ForSequenceClassification", num_labels=3, **DISTIL),
    "ELECTRA": text("Electra", embedding_size=8),
    "ModernBERT": text("ModernBert", **MODERN),
    "DeBERTa-v2": lambda: model("DebertaV2", "ForSequenceClassification", "eager", **(WORDS | DEBERTA)),
    "T5 encoder": lambda: MeanPooled(model("T5", "EncoderModel", "eager", **T5)),
    "GPT-2": lambda: model("GPT2", "ForSequenceClassification", num_labels=3, pad_token_id=0, **GPT),
}
IMAGES = {"ViT": image("ViT"), "DeiT": image("DeiT"), "DINOv2": image("Dinov2"), "CLIP vision": clip_vision}


SOUND = {"conv_dim": (8, 8), "conv_stride": (4, 2), "conv_kernel": (8, 4), "num_feat_extract_layers": 2}
POSITIONS = {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8}
WHISPER = {"d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "num_labels": 3}
MEL = {"num_mel_bins": 8, "max_source_positions": 10, "classifier_proj_size": 8, "vocab_size": 20, "init_std": 0.3}
VIDEO = {"num_frames": 2, "tubelet_size": 2}


def siglip():
    return model("Siglip", "ForImageClassification", vision_config=IMAGE, text_config=WORDS, num_labels=3)


AVERAGING = {  # heads that average what the blocks return: build, inputs, positions that are never gated
    "DINOv2": (image("Dinov2"), {"pixel_values": torch.ones(2, 3, 16, 16)}, 1),
    "SigLIP": (siglip, {"pixel_values": torch.ones(2, 3, 16, 16)}, 0),
    "Wav2Vec2": (text("Wav2Vec2", **SOUND, **POSITIONS), {"input_values": torch.ones(2, 400)}, 0),
    "VideoMAE": (
        lambda: model("VideoMAE", "ForVideoClassification", **IMAGE, **VIDEO),
        {"pixel_values": torch.ones(2, 2, 3, 16, 16)},
        0,
    ),
    "Whisper": (
        lambda: model("Whisper", "ForAudioClassification", pad_token_id=0, **WHISPER, **MEL),
        {"input_features": torch.ones(2, 8, 20)},
        0,
    ),
}


def batch(name):
    return small_batch("ViT" if name in IMAGES else "Bert")


@pytest.fixture(scope="module", params=[*TEXTS, *IMAGES])
def family(request):
    with seeded(0, request.param):
        return request.param, wrap((TEXTS | IMAGES)[request.param]().eval(), gate=Gate())


def logits(output):
    return output if isinstance(output, torch.Tensor) else output.logits


def test_open_gates_leave_the_logits_as_they_are(family):
    name, wrapped = family
    inputs = batch(name)
    classifier = wrapped.read(**inputs)
    opened = classifier(classifier.tokens, attention_bias(torch.ones(classifier.visible.shape)))
    torch.testing.assert_close(opened, logits(wrapped.model(**inputs)), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(wrapped.predict(**inputs).evidence.logits, logits(wrapped.model(**inputs)))


def states(classifier, tokens, gates):
    """What the last block returns."""
    outputs = []
    *_, block = find_blocks(classifier.model)[1].children()
    handle = block.register_forward_hook(lambda module, args, output: outputs.append(output))
    classifier.run(tokens, attention_bias(gates))
    handle.remove()
    return outputs[0] if isinstance(outputs[0], torch.Tensor) else outputs[0][0]


@torch.no_grad()
def test_the_content_of_a_token_whose_gate_is_closed_reaches_no_other_position(family):
    name, wrapped = family
    classifier = wrapped.read(**batch(name))
    moved = classifier.tokens.clone()
    moved[:, 1] = moved[:, 1].flip(-1)
    others = F.pad(classifier.visible, (classifier.fixed, 0), value=True)
    others[:, classifier.fixed + 1] = False
    gates = torch.ones(classifier.visible.shape)
    before, after = (states(classifier, tokens, gates)[others] for tokens in (classifier.tokens, moved))
    assert (before - after).abs().max() > 1e-3
    gates[:, 1] = 0.0
    before, after = (states(classifier, tokens, gates)[others] for tokens in (classifier.tokens, moved))
    torch.testing.assert_close(before, after, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["BERT", "RoBERTa", "DistilBERT", "ELECTRA", "ModernBERT", "DeBERTa-v2"])
def test_a_closed_gate_equals_a_token_that_the_padding_mask_hides(name):
    with seeded(0, name):
        wrapped = wrap(TEXTS[name]().eval())
    inputs = batch(name)
    hidden = inputs["attention_mask"].clone()
    hidden[:, 3] = 0
    classifier = wrapped.read(**inputs)
    gates = torch.ones(classifier.visible.shape)
    gates[:, 2] = 0.0
    closed = classifier(classifier.tokens, attention_bias(gates))
    expected = wrapped.model(**(inputs | {"attention_mask": hidden})).logits
    torch.testing.assert_close(closed, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", list(TEXTS), indirect=True)
def test_padding_has_no_score_no_gate_and_no_part_in_the_scores_of_others(family):
    name, wrapped = family
    inputs = batch(name)
    both = wrapped.predict(**inputs)
    alone = wrapped.predict(**{key: value[1:, :5] for key, value in inputs.items()})
    assert (both.gates[1, alone.gates.shape[1] :] == 0).all()
    assert (both.evidence.scores[1, alone.gates.shape[1] :] == 0).all()
    torch.testing.assert_close(both.gates[1:, : alone.gates.shape[1]], alone.gates, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(both.logits[1:], alone.logits, rtol=1e-3, atol=1e-4)


def test_the_users_own_loop_trains_gates_and_model(family):
    name, wrapped = family
    wrapped.zero_grad()
    F.cross_entropy(logits(wrapped(**batch(name))), torch.tensor([0, 2])).backward()
    assert wrapped.gate.threshold.grad != 0
    assert wrapped.gate.log_temperature.grad != 0
    assert all(parameter.grad is not None for parameter in wrapped.read(**batch(name)).first_block.parameters())
    wrapped.zero_grad()


@pytest.mark.parametrize("name", ["BERT", "ViT"])
def test_gates_are_open_until_they_are_trained_alone_or_loaded(name):
    with seeded(0, name):
        wrapped = wrap((TEXTS | IMAGES)[name]().eval())
    before = {key: value.clone() for key, value in wrapped.model.state_dict().items()}
    plain = wrapped.model(**batch(name)).logits
    torch.testing.assert_close(wrapped.predict(**batch(name)).logits, plain)
    optimizer = torch.optim.Adam(wrapped.gate.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        wrapped.train()(**batch(name), labels=torch.tensor([0, 1])).loss.backward()
        optimizer.step()
    wrapped.eval()
    assert wrapped.gate.threshold != 0
    assert wrapped.gate.log_temperature != 0
    assert all(torch.equal(value, before[key]) for key, value in wrapped.model.state_dict().items())
    assert not torch.allclose(wrapped.predict(**batch(name)).logits, plain)
    other = wrap(wrapped.model)
    other.load_state_dict(wrapped.state_dict())
    assert torch.equal(other.predict(**batch(name)).logits, wrapped.predict(**batch(name)).logits)


def test_nothing_stays_on_the_model():
    with seeded(0, "BERT"):
        bert = TEXTS["BERT"]().eval()
    expected = bert(**batch("BERT")).logits
    wrap(bert).explain(**batch("BERT"))
    assert torch.equal(bert(**batch("BERT")).logits, expected)
    assert all(not module._forward_pre_hooks for module in bert.modules())


class Flash(nn.Module):
    """A block whose attention is not torch's."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 16))

    def forward(self, x):
        return x + self.inner(x).cumsum(1)


class FlashClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Flash(), Flash()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x[:, 0]


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(*[nn.Sequential(nn.Conv2d(3, 3, 1)) for _ in range(2)])

    def forward(self, x):
        return self.stages(x).mean((2, 3))


def encoder_decoder():
    return model("T5", "ForSequenceClassification", "eager", num_labels=3, **T5)


def without_head():
    return model("Bert", "Model", **WORDS)


@pytest.mark.parametrize(
    ("build", "inputs", "message"),
    [
        (encoder_decoder, {}, "T5ForSequenceClassification is an encoder-decoder, which wrap does not support; use a"),
        (lambda: nn.Linear(3, 2), {}, "Linear has no list of Transformer blocks to gate; pass a model with"),
        (without_head, batch("BERT"), r"returns logits \[b, k\], but BertModel returns .*; use a model with a class"),
        (FlashClassifier, {"x": torch.randn(2, 5, 16)}, "gates reach 0 attentions in the 2 blocks of FlashClassifier"),
        (Convolutional, {"x": torch.randn(2, 3, 4, 4)}, r"stages of Convolutional reads tensors of shape \[2, 3, 4"),
    ],
)
def test_what_cannot_be_gated_is_refused_by_name(build, inputs, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        wrap(build()).predict(**inputs)


@pytest.mark.parametrize("name", AVERAGING)
def test_a_head_that_averages_tokens_does_not_read_closed_ones(name):
    build, inputs, fixed = AVERAGING[name]
    with seeded(0, name):
        inputs = {key: torch.randn(values.shape) for key, values in inputs.items()}
        wrapped = wrap(build().eval())
    with torch.no_grad():
        classifier = wrapped.read(**inputs)
        assert (wrapped.average is not None, classifier.fixed) == (True, fixed)
        moved = classifier.tokens.clone()
        moved[:, 1] = moved[:, 1].flip(-1)
        gates = torch.ones(classifier.visible.shape)
        own = logits(wrapped.model(**inputs))
        torch.testing.assert_close(classifier(classifier.tokens, attention_bias(gates)), own, rtol=1e-5, atol=1e-5)
        assert (classifier(moved, attention_bias(gates)) - own).abs().max() > 1e-4
        gates[:, 1] = 0.0
        before, after = (classifier(tokens, attention_bias(gates)) for tokens in (classifier.tokens, moved))
    torch.testing.assert_close(before, after, rtol=1e-5, atol=1e-5)
    assert wrapped.leak == pytest.approx(0.0, abs=1e-3)


CONVBERT = WORDS | {"embedding_size": 8, "conv_kernel_size": 3}


def test_a_model_whose_tokens_meet_outside_of_attention_is_refused_with_the_share_that_passes():
    with seeded(0, "ConvBERT"):
        convolutional = model("ConvBert", "ForSequenceClassification", "eager", **CONVBERT).eval()
    with pytest.raises(ValueError, match=r"\d+ % of a token's effect on the logits of ConvBert\w+ pass its"):
        wrap(convolutional).predict(**batch("BERT"))
    accepted = wrap(convolutional, max_leak=1.0)
    accepted.predict(**batch("BERT"))
    assert accepted.leak > 0.05


def test_gradient_checkpointing_is_refused():
    bert = TEXTS["BERT"]().train()
    enable = getattr(bert, "activation_checkpointing_enable", None)  # its name since transformers 5.23
    (enable or bert.gradient_checkpointing_enable)()
    with pytest.raises(ValueError, match=r"without gates; call model.gradient_checkpointing_disable\(\)"):
        wrap(bert)(**batch("BERT"))
