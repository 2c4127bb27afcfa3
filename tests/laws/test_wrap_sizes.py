"""wrap(): experts, classes, heads and other sequences that have the size of the tokens by chance never get their gates."""

import pytest
import torch
import torch.nn.functional as F
from helpers import unchecked
from torch import nn

from gauge import load_wrapped, save_wrapped, wrap
from gauge.randomness import seeded

WORDS = torch.randint(0, 20, (2, 8), generator=torch.Generator().manual_seed(0))
PATCHES = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(1))


class Attention(nn.Module):
    def __init__(self, *, heads_first=False):
        super().__init__()
        self.query, self.both, self.heads_first = nn.Linear(16, 16), nn.Linear(16, 32), heads_first

    def forward(self, states, others):
        parts = self.query(states), *self.both(others).chunk(2, -1)
        query, key, value = (each.unflatten(2, (2, 8)).transpose(1, 2) for each in parts)
        if self.heads_first:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        output = F.scaled_dot_product_attention(query, key, value)
        return (output.transpose(0, 1) if self.heads_first else output).transpose(1, 2).flatten(2)


class Block(nn.Module):
    """Attention, then a mixture of experts; before it, with `patches`, these read the words and are read by them."""

    def __init__(self, experts, **options):
        super().__init__()
        self.attention, self.route = Attention(**options), nn.Linear(16, experts)
        self.experts = nn.Parameter(torch.randn(experts, 16, 16) / 4)
        self.there, self.back = Attention(), Attention()

    def forward(self, states, patches=None):
        if patches is not None:
            states = states + self.back(states, patches + self.there(patches, states))
        states = states + self.attention(states, states)
        return states + torch.einsum("bse,ecd,bsc->bsd", self.route(states).softmax(-1), self.experts, states)


class Net(nn.Module):
    def __init__(self, *, experts=3, latents=0, vote=False, **options):
        super().__init__()
        self.words, self.mark, self.head = nn.Embedding(20, 16), nn.Parameter(torch.randn(1, 1, 16)), nn.Linear(16, 9)
        self.latents = nn.Parameter(torch.randn(1, latents, 16)) if latents else None
        self.blocks, self.read = nn.ModuleList(Block(experts, **options) for _ in range(2)), Attention()
        self.vote = vote

    def forward(self, words, patches=None):
        states = self.words(words)
        states = states if patches is not None else torch.cat([self.mark.expand(len(words), -1, -1), states], 1)
        if self.latents is not None:
            states = self.read(self.latents.expand(len(words), -1, -1), states)
        for block in self.blocks:
            states = block(states, patches)
        return self.head(states).softmax(-1).mean(1).log() if self.vote else self.head(states[:, 0])


def built(**options):
    with seeded(0, "sizes"):
        return Net(**options).eval()


ELSE = "attentions of Net have the size of the blocks that wrap found but read other tokens, experts or classes"


@pytest.mark.parametrize(
    ("options", "inputs", "message"),
    [
        ({"experts": 9}, (WORDS,), f"2 {ELSE}"),
        ({"vote": True}, (WORDS,), f"1 {ELSE}"),
        ({}, (WORDS, PATCHES), f"[123] {ELSE}"),
        ({"heads_first": True}, (WORDS,), r"of one sample change .* attention over \[b, h, s, s\], samples first"),
        ({"latents": 5}, (WORDS,), "read 5 positions for 8 tokens or patches, so that a gate would not belong to one"),
    ],
)
def test_what_has_the_size_of_the_tokens_by_chance_is_refused(options, inputs, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        wrap(built(**options)).predict(*inputs)


def test_a_shorter_batch_of_the_size_of_its_experts_is_refused_too(tmp_path):
    model = built(experts=6)
    wrapped = wrap(model)
    with unchecked():
        wrapped.predict(WORDS)
        wrapped.predict(WORDS[:, :4])
        save_wrapped(wrapped, tmp_path)
        for each in (wrapped, load_wrapped(tmp_path, model)):
            with pytest.raises(ValueError, match="reach 4 attentions of Net, but 2 in the batch that was checked"):
                each.predict(WORDS[:, :5])  # six positions with the class token
