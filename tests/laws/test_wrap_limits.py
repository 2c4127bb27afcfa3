"""wrap(): what it finds out about a model by itself, and models that look gateable but are not."""

import pytest
import torch
from helpers import unchecked
from small_transformers import batch as texts
from small_transformers import small
from torch import nn
from torch.utils.checkpoint import checkpoint

from gauge import Gate, load_wrapped, save_wrapped, wrap
from gauge.paper.gauge import attention_bias
from gauge.randomness import seeded

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings(
    "ignore:enable_nested_tensor is True", "ignore:The PyTorch API of nested tensors"
)

GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 20, "n_positions": 32, "initializer_range": 0.3}


class Encoder(nn.Module):
    """A classifier of one's own around torch's encoder, with a causal mask or padding."""

    def __init__(self, *, causal=False, nested=True, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, **{"batch_first": True} | options)
        self.embed, self.encoder = nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        self.head, self.causal = nn.Linear(16, 3), causal

    def forward(self, input_ids, attention_mask=None):
        padding = None if attention_mask is None else attention_mask == 0
        if self.causal:
            mask = nn.Transformer.generate_square_subsequent_mask(input_ids.shape[1])
            return self.head(self.encoder(self.embed(input_ids), mask, padding, is_causal=True)[:, -1])
        return self.head(self.encoder(self.embed(input_ids), src_key_padding_mask=padding)[:, 0])


def built(build, *args, **options):
    with seeded(0, "limits"):
        return build(*args, **options).eval()


def gpt():
    return built(
        transformers.GPT2ForSequenceClassification, transformers.GPT2Config(**GPT, num_labels=3, pad_token_id=0)
    )


@torch.no_grad()
def changes(classifier, token, *, closed):
    """How far the logits move with the content of a token."""
    gates = torch.where(classifier.visible, 1.0, 0.0)
    gates[:, token] *= not closed
    moved = classifier.tokens.clone()
    moved[:, token] = torch.randn(moved[:, token].shape, generator=torch.Generator().manual_seed(0))
    before, after = (classifier(tokens, attention_bias(gates)) for tokens in (classifier.tokens, moved))
    return float((before - after).abs().max())


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"nested": False}, {"causal": True, "nested": False}])
def test_the_encoder_of_torch_is_gated_with_and_without_its_fast_path(options):
    inputs = {"input_ids": texts("Bert")["input_ids"]} if options.get("causal") else texts("Bert")
    with unchecked():
        wrapped = wrap(built(Encoder, **options))
        prediction = wrapped.predict(**inputs)
        torch.testing.assert_close(prediction.evidence.logits, wrapped.model(**inputs), rtol=1e-5, atol=1e-5)
        classifier = wrapped.read(**inputs)
        assert changes(classifier, 1, closed=False) > 1e-3
        assert changes(classifier, 1, closed=True) < 1e-5
        assert torch.backends.mha.get_fastpath_enabled()
        attention = classifier.attention(classifier.tokens)
    torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:-1]))
    if not options.get("causal"):
        assert torch.equal(prediction.gates == 0, inputs["attention_mask"][:, 1:] == 0)


@pytest.mark.parametrize("build", [lambda: Encoder(causal=True, nested=False).eval(), gpt])
def test_the_last_token_of_a_decoder_is_read_and_never_gated(build, tmp_path):
    inputs = {"input_ids": torch.randint(3, 20, (2, 7), generator=torch.Generator().manual_seed(0))}
    with unchecked(), seeded(0, "decoder"):
        wrapped = wrap(build(), gate=Gate())
        explanation = wrapped.explain(**inputs, exact=True)
    assert wrapped.reads_last
    assert (explanation.gates[:, -1] == 1).all()
    assert (explanation.gates[:, :-1] < 1).all()
    assert explanation.effects[:, -1].abs().max() < 1e-6
    assert (explanation.attention_before[:, :-1] > 0).all(), "of the last token, to those before it"
    save_wrapped(wrapped, tmp_path)
    loaded = load_wrapped(tmp_path, wrapped.model)
    assert (loaded.reads_last, loaded.longest) == (True, 6)


def test_a_text_of_one_word_has_no_effects():
    with unchecked():
        explanation = wrap(built(Encoder)).explain(torch.tensor([[3], [4]]), exact=True)
    assert explanation.effects.shape == (2, 0)


def test_attention_that_outweighs_a_closed_gate_is_refused():
    bert = small("Bert")
    with torch.no_grad():
        for layer in bert.bert.encoder.layer:
            layer.attention.self.query.weight *= 40
    worst = wrap(bert, max_leak=100.0)
    classifier = worst.read(**texts("Bert"))
    leaks = [changes(classifier, token, closed=True) / changes(classifier, token, closed=False) for token in range(4)]
    assert max(leaks) > 0.05
    with pytest.raises(ValueError, match="or attention logits outweigh a closed gate"):
        wrap(bert).predict(**texts("Bert"))


class Towers(nn.Module):
    """Two texts, read by two models or by one model twice."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, input_ids, other):
        return self.first(input_ids=input_ids).logits + self.second(input_ids=other).logits


@pytest.mark.parametrize("second", [lambda first: small("Bert"), lambda first: first])
def test_gates_of_one_text_never_close_tokens_of_another(second):
    first, ids = small("Bert"), texts("Bert")["input_ids"]
    with unchecked(), pytest.raises(ValueError, match="2 attentions of Towers have the size of the blocks .* other"):
        wrap(Towers(first, second(first))).predict(input_ids=ids, other=ids.flip(0))


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.bert, self.reentrant = small("Bert"), reentrant

    def forward(self, input_ids):
        states = self.bert.bert.embeddings(input_ids)
        for layer in self.bert.bert.encoder.layer:
            states = checkpoint(layer, states, use_reentrant=self.reentrant)
        return self.bert.classifier(states[:, 0])


class Offset(nn.Module):
    """Its logits are small, and not the same in every pass."""

    def __init__(self):
        super().__init__()
        self.bert, self.passes = small("Bert"), 0

    def forward(self, input_ids):
        self.passes += 1
        return 1e-3 * (self.bert(input_ids=input_ids).logits + self.passes)


XLNET = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, "vocab_size": 20, "num_labels": 3}
PERCEIVER = {"num_latents": 4, "d_latents": 16, "d_model": 16, "num_blocks": 1, "num_self_attends_per_block": 2}
HEADS = {"num_self_attention_heads": 2, "num_cross_attention_heads": 2, "max_position_embeddings": 32}


def xlnet():
    return transformers.XLNetForSequenceClassification(transformers.XLNetConfig(**XLNET, initializer_range=0.3))


def perceiver():
    config = transformers.PerceiverConfig(**PERCEIVER, **HEADS, vocab_size=20, num_labels=3)
    return transformers.PerceiverForSequenceClassification(config)


@pytest.mark.parametrize(
    ("build", "samples", "message"),
    [
        (lambda: Encoder(batch_first=False), 3, r"the blocks of Encoder read \[s, b, c\]; wrap needs \[b, s, c\]"),
        (xlnet, 3, r"the blocks of XLNet\w+ read \[s, b, c\]"),
        (xlnet, 7, "the tokens of one sample change the logits of XLNet.* for others"),  # as many samples as tokens
        (perceiver, 2, "read 4 positions for 7 tokens or patches, so that a gate would not belong to one"),
        (lambda: Checkpointed(True), 2, "have no gradient in its tokens .*; call it without torch.utils.checkpoint"),
        (lambda: Checkpointed(False), 2, "have no gradient in its tokens .*; call it without torch.utils.checkpoint"),
        (Offset, 2, "has other logits than the model itself"),
    ],
)
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_what_would_be_gated_wrongly_is_refused(build, samples, message):
    ids = torch.randint(3, 20, (samples, 7), generator=torch.Generator().manual_seed(0))
    wrapped = wrap(built(build))
    for _ in range(2):  # the second time, too
        with unchecked(), pytest.raises(ValueError, match=message):
            wrapped.predict(input_ids=ids)


def test_the_number_of_fixed_positions_is_checked():
    with pytest.raises(ValueError, match="fixed is -1; give the number of positions that are never gated, 0 or more"):
        wrap(small("Bert"), fixed=-1)
    with pytest.raises(ValueError, match="fixed is 9, but the blocks of Bert.* read 7 positions; fix fewer"):
        wrap(small("Bert"), fixed=9).predict(**texts("Bert"))
    with pytest.raises(
        ValueError, match="fixed is 7, as many as there are positions, so that no token has a gate; fix"
    ):
        wrap(small("Bert"), fixed=7).predict(**texts("Bert"))


def test_a_row_of_padding_that_has_no_logits_of_its_own_is_named():
    inputs = texts("Bert") | {"attention_mask": torch.tensor([[1] * 7, [0] * 7])}
    with unchecked(), pytest.raises(ValueError, match="sample 1 is all padding, .*; leave it out of the first batch"):
        wrap(built(Encoder)).predict(**inputs)


class Reader(nn.Module):
    """torch's encoder with a head of one's own, and inputs for its masks and positions."""

    def __init__(self, head="first", hides=lambda mask: mask == 0, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **options)
        self.words, self.places, self.mark = (
            nn.Embedding(20, 16),
            nn.Embedding(9, 16),
            nn.Parameter(torch.randn(1, 1, 16)),
        )
        self.encoder, self.classes = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 3)
        self.head, self.hides = head, hides

    def forward(self, words, attention_mask=None, positions=None, causal_mask=None):
        states = self.words(words) + self.places(torch.arange(words.shape[1]) if positions is None else positions)
        padding = None if attention_mask is None else self.hides(attention_mask)
        if self.head == "class token":
            states = torch.cat([self.mark.expand(len(words), -1, -1), states], 1)
        causal_mask = causal_mask[0, 0] if causal_mask is not None and causal_mask.ndim == 4 else causal_mask
        states = self.encoder(states, causal_mask, padding)
        return self.classes({"mean": states.mean(1), "last": states[:, -1]}.get(self.head, states[:, 0]))


@pytest.mark.parametrize("kind", [torch.bool, torch.long])
def test_a_mask_of_the_model_that_is_true_at_padding_is_refused(kind):
    words, valid = texts("Bert").values()
    model, message = (
        built(Reader, hides=torch.Tensor.bool),
        "'attention_mask' of Reader has .* keys are visible, but .* only",
    )
    for length in (7, 5):  # with padding, and without
        known = wrap(model)
        with unchecked():
            known.predict(words)  # without a mask
        with unchecked(), pytest.raises(ValueError, match=message):
            wrap(model).predict(words[:, :length], (valid == 0).to(kind)[:, :length])
        with unchecked(), pytest.raises(ValueError, match=message):
            known.predict(words[:, :length], (valid == 0).to(kind)[:, :length])


def test_an_additive_mask_of_the_model_hides_what_it_lowers():
    words, valid = texts("Bert").values()
    wrapped = wrap(built(Reader, hides=lambda mask: mask))
    with unchecked():
        expected = wrap(built(Reader)).explain(words, valid, exact=True)
        explanation = wrapped.explain(words, torch.zeros(2, 7).masked_fill(valid == 0, -torch.inf), exact=True)
        assert wrapped.explain(words, torch.zeros(2, 7)).visible.all()
    assert torch.equal(explanation.visible, expected.visible)
    torch.testing.assert_close(explanation.effects, expected.effects)
    assert explanation.effects.abs().max() > 1e-3


@pytest.mark.parametrize("head", ["first", "class token", "last", "mean"])
@pytest.mark.parametrize("visible", [1, 2])
def test_a_short_first_batch_never_decides_what_the_head_of_longer_ones_reads(head, visible):
    model, words = built(Reader, head), texts("Bert")["input_ids"][:1]
    short = [(words[:, :visible],), (words, (torch.arange(7) < visible)[None].long())]
    for first in short[: 1 + (head == "first")]:  # cut, and padded
        wrapped, other = wrap(model), wrap(model)
        with unchecked():
            before, after = wrapped.explain(*first, exact=True), wrapped.explain(words, exact=True)
            expected, short_after = other.explain(words, exact=True), other.explain(*first, exact=True)
        torch.testing.assert_close(after.effects, expected.effects)
        assert (wrapped.fixed, wrapped.average, wrapped.reads_last) == (other.fixed, other.average, other.reads_last)
        assert before.effects.abs().max() < 1e-6 or before.effects.shape == short_after.effects.shape
        if visible == 2:
            torch.testing.assert_close(before.effects, short_after.effects)


CAUSAL = torch.full((7, 7), -torch.inf).triu(1)


@pytest.mark.parametrize("samples", [1, 2, 7])  # also as many as tokens
@pytest.mark.parametrize(
    "inputs",
    [
        {"positions": torch.arange(7)},
        {"positions": torch.arange(7)[None]},
        {"causal_mask": CAUSAL},
        {"causal_mask": CAUSAL[None, None]},
        {"attention_mask": torch.tensor([1] * 5 + [0] * 2)},
    ],
)
def test_inputs_without_an_axis_of_samples_are_never_stacked_as_samples(samples, inputs):
    words = torch.randint(3, 20, (samples, 7), generator=torch.Generator().manual_seed(0))
    if "attention_mask" in inputs:  # this one has it
        inputs = {"attention_mask": inputs["attention_mask"].repeat(samples, 1)}
    with unchecked(), torch.no_grad():
        wrapped = wrap(built(Reader, "last" if "causal_mask" in inputs else "first"))
        explanation, classifier = wrapped.explain(words, **inputs, exact=True), wrapped.read(words, **inputs)
        gates = classifier.visible.float()
        probability, predicted = explanation.logits.softmax(1).max(1)
        for token in range(gates.shape[1] - 1):
            closed = torch.where(torch.arange(gates.shape[1]) == token, 0.0, gates)
            left = classifier(classifier.tokens, attention_bias(closed)).softmax(1)[range(samples), predicted]
            torch.testing.assert_close(explanation.effects[:, token], probability - left, rtol=0, atol=1e-6)
    assert explanation.effects.abs().max() > 1e-3


@pytest.mark.parametrize("options", [{}, {"norm_first": True}])
def test_rounding_under_autocast_is_no_reason_to_refuse_a_model(options):
    words = texts("Bert")["input_ids"]
    with unchecked(), torch.autocast("cpu", dtype=torch.bfloat16):
        wrapped = wrap(built(Reader, **options))
        expected = wrapped.model(words).float()
        prediction = wrapped.predict(words)
    torch.testing.assert_close(prediction.logits.float(), expected, rtol=0.05, atol=0.05)
    assert wrapped.fixed == 1
