"""Backbones: every adapter keeps the contract, and check_backbone tells when one does not."""

import re

import pytest
import torch
from helpers import TimmBlock, noise, unchecked
from torch import nn

from gauge import FromFunction, FromHuggingFace, FromTimm, FromTorch, check_backbone
from gauge.nn.attention import Attention
from gauge.paper.gauge import attention_bias
from gauge.randomness import seeded
from gauge.types import Backbone

DIM = 16


def stock(norm_first=True, **options):
    layer = nn.TransformerEncoderLayer(DIM, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def bert(implementation):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=DIM,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=10,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.3,
    )
    return transformers.BertModel._from_config(config, attn_implementation=implementation).encoder


def transformer():
    from gauge import Transformer

    return Transformer(DIM, heads=2, depth=2)


def function():
    attention = Attention(DIM, heads=4)
    return FromFunction(lambda sequence, attn_bias: sequence + attention(sequence, attn_bias))


BACKBONES = {
    "Transformer": transformer,
    "FromTorch pre-norm": lambda: FromTorch(stock(norm_first=True)),
    "FromTorch post-norm": lambda: FromTorch(stock(norm_first=False)),
    "FromHuggingFace eager": lambda: FromHuggingFace(bert("eager")),
    "FromHuggingFace sdpa": lambda: FromHuggingFace(bert("sdpa")),
    "FromTimm": lambda: FromTimm([TimmBlock(DIM), TimmBlock(DIM)], nn.LayerNorm(DIM)),
    "FromFunction": function,
}


@pytest.fixture(params=BACKBONES)
def backbone(request):
    with seeded(0, "backbone"):
        return BACKBONES[request.param]()


@pytest.fixture
def sequence():
    return noise(3, 6, DIM)


@pytest.fixture
def bias():
    return attention_bias(torch.rand(3, 5, generator=torch.Generator().manual_seed(0)))


def test_every_backbone_keeps_the_contract(backbone):
    check_backbone(backbone, dim=DIM)


def test_a_closed_key_equals_a_shorter_sequence(backbone, sequence):
    bias = torch.zeros(3, 1, 1, 6)
    bias[..., 4] = -1e9
    shorter = backbone(sequence[:, torch.arange(6) != 4], None)
    torch.testing.assert_close(backbone(sequence, bias)[:, :4], shorter[:, :4], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["FromTorch pre-norm", "FromHuggingFace eager", "FromHuggingFace sdpa", "FromTimm", "Transformer"]
)
def test_attention_of_an_adapter_is_a_distribution_that_knows_the_bias(name, sequence):
    adapter = BACKBONES[name]().eval()
    closed = torch.zeros(3, 1, 1, 6)
    closed[..., 2] = -1e9
    weights = adapter.attention(sequence, closed)
    assert weights.shape == (3, 2, 6, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 6))
    assert (weights[..., 2] == 0).all()


def attend(sequence, weigh):
    """One head of attention without parameters; `weigh` turns its logits into weights."""
    return sequence + weigh(sequence @ sequence.transpose(1, 2) / DIM**0.5) @ sequence


def keys(attn_bias):
    return 0.0 if attn_bias is None else attn_bias[:, 0]


def good(sequence, attn_bias):
    return attend(sequence, lambda logits: (logits + keys(attn_bias)).softmax(-1))


def ignores_the_bias(sequence, attn_bias):
    return good(sequence, None)


def reads_it_as_boolean(sequence, attn_bias):
    return good(sequence, None if attn_bias is None else torch.where(attn_bias == 0, 0.0, -1e9) + 0 * attn_bias)


def multiplies(sequence, attn_bias):
    """Takes the bias for a factor, so that 0 drops a key."""
    return attend(sequence, lambda logits: (logits * (1 if attn_bias is None else keys(attn_bias))).softmax(-1))


def multiplies_after_the_softmax(sequence, attn_bias):
    """Scales weights by exp(bias) but leaves them unnormalised, and only in part."""
    return attend(sequence, lambda logits: logits.softmax(-1) * (0.5 + 0.5 * torch.as_tensor(keys(attn_bias)).exp()))


def detaches(sequence, attn_bias):
    return good(sequence, None if attn_bias is None else attn_bias.detach()) + 0 * sequence.requires_grad_()


def returns_cls_only(sequence, attn_bias):
    return good(sequence, attn_bias)[:, 0]


def returns_a_tuple(sequence, attn_bias):
    return (good(sequence, attn_bias),)


def mixes_samples(sequence, attn_bias):
    return good(sequence, None if attn_bias is None else attn_bias.mean(0, keepdim=True).expand_as(attn_bias))


def reads_the_first_row_of_a_square_bias(sequence, attn_bias):
    square = attn_bias is not None and attn_bias.shape[2] > 1
    return good(sequence, 0.5 * attn_bias if square else attn_bias)


def hides_everything(sequence, attn_bias):
    blind = attn_bias is not None and bool((attn_bias != 0).any())
    return good(sequence, torch.where(torch.arange(6) == 0, 0.0, -1e9) + 0 * attn_bias if blind else None)


class FastPath(nn.Module):
    """A stock encoder in its fused inference path, given the bias as src_key_padding_mask."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(DIM, 2, 32, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False
        )

    def forward(self, sequence, attn_bias):
        if attn_bias is None:
            return self.encoder(sequence)
        return self.encoder(sequence, src_key_padding_mask=attn_bias.expand(-1, 1, len(sequence[0]), -1)[:, 0, 0])


def causal(sequence, attn_bias):
    order = torch.ones(6, 6, dtype=torch.bool).tril()
    return attend(sequence, lambda logits: (logits + keys(attn_bias)).masked_fill(~order, -1e9).softmax(-1))


def attends_over_the_batch(sequence, attn_bias):
    return good(sequence, attn_bias) + sequence.mean(0)


class WrongCls(Backbone):
    def forward(self, sequence, attn_bias):
        return good(sequence, attn_bias)

    def cls(self, sequence, attn_bias):
        return good(sequence, attn_bias)[:, 1]


class WrongAttention(Backbone):
    def forward(self, sequence, attn_bias):
        return good(sequence, attn_bias)

    def attention(self, sequence, attn_bias):
        return torch.full((3, 1, 6, 6), 1 / 6)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (ignores_the_bias, "a key with bias -1e9 still reaches CLS; add the bias to the attention logits"),
        (reads_it_as_boolean, "biases of -1, -2 and -1e9 act alike: the mask is read as yes or no"),
        (multiplies, "a bias of zeros changes the output; it must be added to the attention logits before the softmax"),
        (multiplies_after_the_softmax, "a key with bias -1e9 still reaches CLS"),
        (detaches, "no gradient reaches the bias, so gates could not learn"),
        (FastPath(), "a fused inference path misreads it; switch that path off during the call, as FromTorch does"),
        (returns_cls_only, r"the backbone maps \[3, 6, 16\] to shape \[3, 16\]; return the sequence"),
        (returns_a_tuple, r"the backbone maps \[3, 6, 16\] to tuple; return the sequence as one tensor"),
        (attends_over_the_batch, r"one sample's content changes another's output; attend .* batch_first=True"),
        (3, "a backbone is a Backbone or a function, not 3; give one"),
        (nn.Linear(DIM, DIM), "does not run on tokens of width 16 and a bias or None; check dim=16 and its arguments"),
        (mixes_samples, "one sample's bias changes another's output; keep the bias's first axis aligned"),
        (reads_the_first_row_of_a_square_bias, r"a bias of shape \[b, 1, s, s\] differs from the same one of shape"),
        (hides_everything, "CLS does not react to a unit whose bias is 0; the bias hides keys"),
        (causal, r"attention is causal, so CLS in the first position sees nothing .*; use an encoder without a causal"),
        (WrongCls(), r"cls\(sequence, attn_bias\) is not the first position of the output; fix it, or remove cls"),
        (WrongAttention(), r"attention\(sequence, attn_bias\) must be \[b, h, s, s\] after the softmax, bias included"),
    ],
    ids=lambda value: None if isinstance(value, str) else getattr(value, "__name__", type(value).__name__),
)
def test_a_broken_backbone_is_refused_with_what_is_wrong(broken, message):
    check_backbone(good, dim=DIM)
    with unchecked(), pytest.raises(ValueError, match=message):
        check_backbone(broken, dim=DIM)


class PlainBlock(nn.Module):
    def forward(self, x):
        return x


class WholeTimm(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(TimmBlock(DIM), TimmBlock(DIM))


HUGGING_FACE = [
    ("Bert", "Model"),
    ("Bert", "ForSequenceClassification"),
    ("DistilBert", "Model"),
    ("DistilBert", "ForSequenceClassification"),
    ("Dinov2", "Model"),
    ("ViT", "Model"),
    ("ViT", "ForImageClassification"),
    ("CLIPVision", "Model"),
]


@pytest.mark.parametrize("family", HUGGING_FACE, ids="".join)
def test_a_whole_model_is_refused_with_the_name_of_the_part_to_pass(family):
    """The advice is right: what it names keeps the contract."""
    transformers = pytest.importorskip("transformers")
    name, kind = family
    sizes = {"hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"dim": DIM, "n_layers": 2, "n_heads": 2, "hidden_dim": 32} if name == "DistilBert" else {}
    sizes |= {"vocab_size": 10} if "Bert" in name else {"image_size": 16, "patch_size": 8}
    with seeded(0, name):
        config = getattr(transformers, f"{name}Config")(initializer_range=0.3, **sizes)
        whole = getattr(transformers, f"{name}{kind}")(config)
    message = rf"{name}{kind} is a whole model that embeds its own input; pass model\.([\w.]+), or gate the .*wrap"
    with pytest.raises(ValueError, match=message) as refused:
        FromHuggingFace(whole)
    part = re.search(message, str(refused.value))[1]
    check_backbone(FromHuggingFace(whole.get_submodule(part)), dim=DIM)


@pytest.mark.parametrize(
    ("adapter", "argument", "message"),
    [
        (FromTorch, nn.Linear(2, 2), "FromTorch takes nn.TransformerEncoder, not Linear; see FromFunction"),
        (
            FromTorch,
            nn.TransformerEncoder(nn.TransformerEncoderLayer(DIM, 2, 32), 1, enable_nested_tensor=False),
            r"the encoder's layers expect \[s, b, c\]; make them with batch_first=True",
        ),
        (FromTimm, WholeTimm(), r"takes the blocks of a Vision Transformer, not WholeTimm; pass model.blocks, or"),
        (FromHuggingFace, PlainBlock(), r"PlainBlock holds no Transformer blocks; pass model.encoder or model.layers"),
        (FromHuggingFace, stock(), r"nn.TransformerEncoder is torch's own; use FromTorch\(encoder\)"),
        (FromFunction, stock(), r"nn.TransformerEncoder does not take an attention bias as it is; use FromTorch"),
    ],
)
def test_an_adapter_refuses_what_it_cannot_adapt(adapter, argument, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        adapter(argument)
