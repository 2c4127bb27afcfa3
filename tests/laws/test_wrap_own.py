"""wrap(): Transformers as a PyTorch engineer writes them, with heads, inputs and outputs of all kinds."""

import pytest
import torch
import torch.nn.functional as F
from helpers import unchecked
from small_transformers import batch as texts
from small_transformers import small
from torch import nn

from gauge import wrap
from gauge.paper.gauge import attention_bias
from gauge.randomness import seeded

pytest.importorskip("transformers")

IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
WORDS = torch.randint(3, 20, (2, 7), generator=torch.Generator().manual_seed(0))
VALID = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])


def one_head(query, key, value):
    return (query @ key.transpose(1, 2) / 4).softmax(-1) @ value


def by_heads(attend):
    def split(query, key, value):
        heads = (each.unflatten(2, (2, 8)).transpose(1, 2) for each in (query, key, value))
        return attend(*heads).transpose(1, 2).flatten(2)

    return split


def folded(query, key, value):
    """Samples and heads as one axis."""
    return one_head(*(each.flatten(0, 1) for each in (query, key, value))).unflatten(0, (len(query), 2))


def rotary(query, key, value):
    angle = torch.arange(query.shape[2])[:, None] * 10.0 ** -torch.arange(4)
    turned = (
        torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)
        for a, b in (each.chunk(2, -1) for each in (query, key))
    )
    return F.scaled_dot_product_attention(*turned, value)


def alibi(query, key, value):
    distance = (torch.arange(query.shape[2])[:, None] - torch.arange(query.shape[2])).abs()
    bias = -distance * torch.tensor([0.5, 0.25])[:, None, None]
    return torch.softmax(query @ key.transpose(2, 3) + bias, dim=-1) @ value


def heads_last(query, key, value):
    """Heads after queries."""
    query, key, value = (each.unflatten(2, (2, 8)) for each in (query, key, value))
    weights = torch.einsum("bqhd,bkhd->bqhk", query, key).softmax(-1)
    return torch.einsum("bqhk,bkhd->bqhd", weights, value).flatten(2)


ATTENTIONS = {
    "heads last": heads_last,
    "one head": one_head,
    "one head, fused": F.scaled_dot_product_attention,
    "rotary": by_heads(rotary),
    "alibi": by_heads(alibi),
    "folded": by_heads(folded),
}


class Block(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.norm, self.qkv, self.out, self.attend = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16), attend
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, states):
        states = states + self.out(self.attend(*self.qkv(self.norm(states)).chunk(3, -1)))
        return states + self.mlp(states)


class Own(nn.Module):
    """A classifier of images or texts with its own names, blocks and head."""

    def __init__(self, head="class token", attention="one head", wrong=None):
        super().__init__()
        self.words, self.patches = nn.Embedding(20, 16), nn.Conv2d(3, 16, 4, 4)
        self.classes = nn.Linear(16, 1 if wrong == "one logit" else 3)
        self.mark = nn.Parameter(torch.randn(1, 1, 16))
        self.blocks = nn.ModuleList(Block(ATTENTIONS[attention]) for _ in range(2))
        self.head, self.wrong = head, wrong

    def forward(self, content, valid=None):
        states = self.patches(content).flatten(2).transpose(1, 2) if content.ndim == 4 else self.words(content)
        around, mark = states.mean(1), self.mark.expand(len(states), -1, -1)
        if self.wrong == "random order":
            states = states[:, torch.randperm(states.shape[1])]
        if self.wrong == "queries":
            states = mark.repeat(1, 3, 1) * torch.arange(3)[:, None]
        if self.wrong == "several sequences":
            states = states.unflatten(1, (2, -1)).flatten(0, 1)
        if self.head == "class token":
            states = torch.cat([mark, states], 1)
        if self.head == "last":
            states = torch.cat([states, mark], 1)
        for block in self.blocks:
            states = block((states, None) if self.wrong == "tuple" else states)
        if self.wrong == "several sequences":
            states = states.unflatten(0, (-1, 2)).mean(1)
        if self.head == "mean":
            return self.classes(states.mean(1) + (around if self.wrong == "around" else 0))
        return self.classes(states[:, -1 if self.head == "last" else 0])


def built(**options):
    with seeded(0, "own"):
        return Own(**options).eval()


@torch.no_grad()
def check_gates(wrapped, *args, **inputs):
    """Open gates change nothing, and the content of a token behind a closed gate does not, either."""
    with unchecked():
        classifier = wrapped.read(*args, **inputs)
        opened = classifier(classifier.tokens, attention_bias(torch.ones(classifier.visible.shape)))
        own = wrapped.model(*args, **inputs)
        torch.testing.assert_close(opened, own if isinstance(own, torch.Tensor) else own[0], rtol=1e-5, atol=1e-6)
        moved, closed = classifier.tokens.clone(), torch.ones(classifier.visible.shape)
        moved[:, 1], closed[:, 1] = 1.0, 0.0
        before, after = (classifier(each, attention_bias(closed)) for each in (classifier.tokens, moved))
        torch.testing.assert_close(before, after, rtol=1e-4, atol=1e-5)
    return classifier


@pytest.mark.parametrize("attention", ["one head", "one head, fused", "rotary", "alibi", "heads last"])
@pytest.mark.parametrize(("content", "count"), [(IMAGES, 4), (WORDS, 7)])
def test_a_class_token_of_any_name_is_fixed_and_every_other_position_has_a_gate(attention, content, count):
    wrapped = wrap(built(attention=attention))
    classifier = check_gates(wrapped, content)
    assert (classifier.fixed, wrapped.average, wrapped.reads_last) == (1, None, False)
    with unchecked():
        explanation = wrapped.explain(content, exact=True)
    assert explanation.gates.shape == explanation.effects.shape == (2, count)
    assert (explanation.attention_before > 0).all()


class Hiding(nn.Module):
    """A block that gets a mask, which is True where it hides."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, states, mask=None, key_padding_mask=None):
        hidden = key_padding_mask if mask is None else mask
        query, key, value = (each[:, None] for each in self.qkv(states).chunk(3, -1))
        return states + F.scaled_dot_product_attention(query, key, value, attn_mask=~hidden[:, None, None])[:, 0]


class Padded(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.words, self.classes, self.name = nn.Embedding(20, 16), nn.Linear(16, 3), name
        self.blocks = nn.ModuleList(Hiding() for _ in range(2))

    def forward(self, words):
        states = self.words(words)
        for block in self.blocks:
            states = block(states, **{self.name: words == 0})
        return self.classes(states[:, 0])


@pytest.mark.parametrize("length", [7, 4])  # with padding, and without
def test_a_mask_that_means_the_opposite_of_its_name_is_refused(length):
    words = (WORDS * VALID)[:, :length]
    with seeded(0, "padded"), unchecked():
        gates = wrap(Padded("key_padding_mask").eval()).predict(words).gates
        assert torch.equal(gates > 0, (words > 0)[:, 1:])
        with pytest.raises(
            ValueError, match="the mask 'mask' of Padded has .* visible, but .* only the others; call it key_p"
        ):
            wrap(Padded("mask").eval()).predict(words)


class Masked(Block):
    """A block whose mask has a name of its own, and is True where keys are visible."""

    def forward(self, states, keep):
        query, key, value = self.qkv(self.norm(states)).chunk(3, -1)
        states = states + self.out(F.scaled_dot_product_attention(query, key, value, attn_mask=keep[:, None]))
        return states + self.mlp(states)


HEADS = {  # of normed states [b, s, c], flags and the last layer
    "mean": lambda states, keep, last: last((states * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)),
    "class token and mean": lambda states, keep, last: last(states[:, 0] + mean(states[:, 1:], keep[:, 1:])),
    "class token and mean of all": lambda states, keep, last: last(states[:, 0] + mean(states, keep)),
    "maximum without padding": lambda states, keep, last: last(states.masked_fill(~keep[..., None], -9.0).amax(1)),
    "mean of logits": lambda states, keep, last: mean(last(states), keep),
    "maximum": lambda states, keep, last: last(states.amax(1)),
    "class token": lambda states, keep, last: last(states[:, 0]),
    "sum": lambda states, keep, last: last(states.sum(1)),
    "sum without padding": lambda states, keep, last: last((states * keep[..., None]).sum(1)),
    "learned weights": lambda states, keep, last: last((states * states[..., :1].softmax(1)).sum(1)),
    "third": lambda states, keep, last: last(states[:, 3]),
    "third, without a class": lambda states, keep, last: last(states[:, 3]) + torch.tensor([0.0, -torch.inf, 0.0]),
    "one for each place": lambda states, keep, last: last(
        states.transpose(1, 2) @ torch.arange(states.shape[1]).float()
    ),
    "features, too": lambda states, keep, last: (states[:, 0], last(states[:, 0])),
    "probabilities": lambda states, keep, last: last(states[:, 0]).softmax(1),
}


def mean(states, keep):
    return (states * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)


class Normed(nn.Module):
    """A classifier with a norm after its blocks, as most have one."""

    def __init__(self, head):
        super().__init__()
        self.words, self.places, self.mark = (
            nn.Embedding(20, 16),
            nn.Embedding(9, 16),
            nn.Parameter(torch.randn(1, 1, 16)),
        )
        self.blocks, self.norm = nn.ModuleList(Masked(None) for _ in range(2)), nn.LayerNorm(16)
        self.classes, self.head = nn.Linear(16, 3), head

    def embedded(self, words):
        states = self.words(words) + self.places(torch.arange(words.shape[1]))
        return torch.cat([self.mark.expand(len(words), -1, -1), states], 1), F.pad(words > 0, (1, 0), value=True)

    def read(self, states, keep):
        for block in self.blocks:
            states = block(states, keep)
        return HEADS[self.head](self.norm(states), keep, self.classes)

    def forward(self, words):
        return self.read(*self.embedded(words))


def normed(head):
    with seeded(0, "normed"):
        model = Normed(head).eval()
        for weights in (model.words.weight, model.classes.weight, *(block.qkv.weight for block in model.blocks)):
            weights.data *= 3
    return model


@pytest.mark.parametrize("head", list(HEADS)[:7])
def test_an_effect_is_what_removing_the_token_from_the_sequence_changes(head):
    model, words = normed(head), WORDS * VALID
    with unchecked(), torch.no_grad():
        wrapped = wrap(model)
        explanation = wrapped.explain(words, exact=True)
        states, keep = model.embedded(words)
        before, chosen = model.read(states, keep).softmax(1).max(1)
        for position in range(1, states.shape[1]):
            others = torch.arange(states.shape[1]) != position
            after = model.read(states[:, others], keep[:, others]).softmax(1)[range(2), chosen]
            effects = torch.where(keep[:, position], before - after, 0.0)
            torch.testing.assert_close(explanation.effects[:, position - explanation.fixed], effects, rtol=0, atol=1e-5)
    assert explanation.effects.abs().max() > 0.05


class Weighing(nn.Module):
    """A block that returns its attention before its states, whose average the head reads."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, states):
        mixed, weights = self.attention(states, states, states, average_attn_weights=False)
        return weights, states + mixed


class Weighed(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.classes = nn.Embedding(20, 16), nn.Linear(16, 3)
        self.blocks = nn.ModuleList(Weighing() for _ in range(2))

    def forward(self, words):
        states = self.words(words)
        for block in self.blocks:
            _, states = block(states)
        return self.classes(states.mean(1))


def test_an_average_of_states_that_cannot_be_found_is_refused():
    with unchecked(), seeded(0, "weighed"), pytest.raises(ValueError, match="% of a token's effect on"):
        wrap(Weighed().eval(), fixed=0).predict(WORDS)


@pytest.mark.parametrize("head", list(HEADS)[7:])
def test_a_head_from_which_no_gate_removes_a_token_is_refused(head):
    rules = {
        "probabilities": "Normed returns probabilities, whose",
        "features, too": r"returns tensors of \[16, 3\] columns",
    }
    rule = rules.get(head, "% of a token's effect on")
    with unchecked(), pytest.raises(ValueError, match=rule):
        wrap(normed(head)).predict(WORDS)
    if head not in rules:
        with unchecked():  # all can be accepted, as the message says
            assert wrap(normed(head), max_leak=1).predict(WORDS).logits.shape == (2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "folded"}, r"gates reach 0 attentions .* over the last axis of \[b, h, s, s\] or, with one"),
        ({"head": "mean", "wrong": "around"}, "% of the effect of an input on the logits of Own go around the tokens"),
        ({"wrong": "random order"}, "the tokens of Own differ between two passes over the same inputs in eval mode"),
        ({"head": "mean", "wrong": "queries"}, "3 positions that the blocks of Own read do not depend on its inputs"),
        ({"head": "mean", "wrong": "several sequences"}, "Own has logits of 2 samples from 4 sequences; wrap needs"),
        ({"wrong": "one logit"}, r"needs two logits or more, but Own returns \[2, 1\].*; train it with num_labels=2"),
        ({"wrong": "tuple"}, r"blocks of Own reads a tuple; wrap needs blocks over sequences \[b, s, c\]"),
    ],
)
def test_what_would_be_gated_wrongly_is_refused(options, message):
    with unchecked(), seeded(0, "order"), pytest.raises(ValueError, match=message):
        wrap(built(**options)).predict(torch.cat([IMAGES, IMAGES], -1)[..., :12])


def test_a_batch_without_samples_and_what_is_no_model_are_refused():
    with unchecked(), pytest.raises(ValueError, match=r"shape \[0, 5, 16\]; give at least one sample with one token"):
        wrap(built()).predict(IMAGES[:0])
    with unchecked(), pytest.raises(ValueError, match="wrap takes an nn.Module, not str; give the model itself"):
        wrap("bert-base-uncased")
    with pytest.raises(ValueError, match="this model is wrapped already; use it as it is, or wrap its .model anew"):
        wrap(wrap(built()))
    with pytest.raises(ValueError, match="reads tensors, not the text 'hello'; give it what its tokenizer makes of it"):
        wrap(built()).predict("hello")


class Batched(nn.Module):
    """Takes a batch as one mapping, as training loops often have it."""

    def __init__(self):
        super().__init__()
        self.bert = small("Bert")

    def forward(self, batch):
        return {"logits": self.bert(**batch).logits}


def test_inputs_are_known_by_name_in_a_mapping_and_within_modules_that_pass_them_on():
    inputs = texts("Bert")
    expected = wrap(small("Bert")).explain(**inputs, exact=True)
    for model, args, named in (
        (small("Bert"), (inputs,), {}),
        (nn.DataParallel(small("Bert")), tuple(inputs.values()), {}),
        (Batched().eval(), (inputs,), {}),
        (small("Bert"), (), inputs | {"return_dict": False}),
    ):
        explanation = wrap(model).explain(*args, **named, exact=True)
        torch.testing.assert_close(explanation.gates, expected.gates)
        torch.testing.assert_close(explanation.effects, expected.effects)
