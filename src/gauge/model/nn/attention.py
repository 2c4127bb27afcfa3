"""The pre-norm Transformer block whose attention takes an additive bias (Eq. 8)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

MIN_SAMPLES, MAX_KEYS = 8, 16  # for which plain products are faster than torch's attention on a CPU
MIN_EXPONENT = -32.0  # e to its power is nothing beside 1; results far below underflow, which takes ten times as long

MAX_WRITTEN_OUT = 64  # positions of a sequence whose attention is held in memory

PullBack = Callable[[Tensor], Tensor]  # from the gradient of an output to that of the input


class Attention(nn.Module):
    """Multi-head self-attention: one qkv projection without bias, an output projection with one, no dropout."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} cannot be split over {heads} heads; make it a multiple")
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.project = nn.Linear(dim, dim)

    def forward(
        self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None, reads: int | None = None
    ) -> Float[Tensor, "b r c"]:
        """The outputs at the first `reads` positions (all when None), which attend to the whole sequence."""
        return self.gather(*self.split(sequence, reads), attn_bias=attn_bias)

    def weights(self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None) -> Float[Tensor, "b h s s"]:
        """The attention of each position to every other."""
        query, key, _ = self.split(sequence)
        logits = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        if attn_bias is not None:
            logits = logits + attn_bias.to(logits.dtype)
        return logits.softmax(-1)

    def split(self, sequence: Float[Tensor, "b s c"], reads: int | None = None) -> tuple[Tensor, ...]:
        """The queries of the first `reads` positions, and all keys and values: [b, h, s, c / h]. A single query is
        multiplied by the weights of the keys, [b, h, c], and the sequence takes the place of keys and values."""
        dim = sequence.shape[-1]
        if reads is None:
            query, key, value = self.qkv(sequence).chunk(3, -1)
        elif reads == 1:
            scale = (dim // self.heads) ** -0.5
            query = F.linear(sequence[:, 0], self.qkv.weight[:dim] * scale).unflatten(-1, (self.heads, -1))
            key_weights = self.qkv.weight[dim : 2 * dim].unflatten(0, (self.heads, -1))
            return (query.transpose(0, 1) @ key_weights).transpose(0, 1), sequence
        else:
            query = F.linear(sequence[:, :reads].contiguous(), self.qkv.weight[:dim])
            key, value = F.linear(sequence, self.qkv.weight[dim:]).chunk(2, -1)
        return split_heads(self.heads, query, key, value)

    def gather(self, *parts: Tensor, attn_bias: Tensor | None) -> Float[Tensor, "b r c"]:
        """The output of every query, from what `split` returns."""
        if len(parts) == 2:
            return self.project(self._gather_first(*parts, attn_bias))[:, None]
        query, key, value = parts
        if attn_bias is not None:
            attn_bias = attn_bias[..., : query.shape[2], :].to(query.dtype)  # float32 beside half precision is misread
        attend = _short_attention if _is_short(query, key.shape[2]) else F.scaled_dot_product_attention
        gathered = attend(query, key, value, attn_bias)
        return self.project(gathered.transpose(1, 2).flatten(2))

    def with_pull_back(
        self, sequence: Float[Tensor, "b s c"], entry: tuple[Tensor, ...], attn_bias: Tensor | None
    ) -> tuple[Tensor, PullBack]:
        """What `gather` gives for the `entry` of a sequence, and its pull-back to the sequence."""
        weight, dim, heads = self.qkv.weight, sequence.shape[-1], self.heads
        by_head = weight.unflatten(0, (3, heads, -1))
        single = len(entry) == 2
        query, key, value = (*entry, sequence) if single else entry
        scale = (dim // heads) ** -0.5
        logits = query @ key.transpose(-2, -1)
        if not single:
            logits *= scale
        if attn_bias is not None:
            bias = attn_bias[..., : 1 if single else query.shape[2], :].to(logits.dtype)
            logits += bias[..., 0, :] if single else bias
        weights = _short_softmax(logits) if _is_short(query, logits.shape[-1]) else logits.softmax(-1)
        gathered = weights @ value
        if single:
            values = (gathered.transpose(0, 1) @ by_head[2].transpose(1, 2)).transpose(0, 1).flatten(1)[:, None]
        else:
            values = gathered.transpose(1, 2).flatten(2)

        def pull_back(gradient: Tensor) -> Tensor:
            gradient = gradient @ self.project.weight
            if single:
                at_values = gradient[:, 0].unflatten(-1, (heads, -1)).transpose(0, 1)
                at_gathered = (at_values @ by_head[2]).transpose(0, 1)
            else:
                at_gathered = gradient.unflatten(-1, (heads, -1)).transpose(1, 2).contiguous()
            at_logits = at_gathered @ value.transpose(-2, -1)
            at_logits -= (at_gathered * gathered).sum(-1, keepdim=True)  # = Σ at_logits · weights
            at_logits *= weights
            if not single:
                at_logits *= scale
                parts = (at_logits @ key, at_logits.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ at_gathered)
                return torch.cat(parts, 1).transpose(1, 2).flatten(2) @ weight
            at_sequence = torch.cat([weights, at_logits], 1).transpose(1, 2) @ torch.cat([at_gathered, query], 1)
            at_query = (at_logits @ key).transpose(0, 1) @ by_head[1].transpose(1, 2)
            at_sequence[:, 0] += at_query.transpose(0, 1).flatten(1) @ (weight[:dim] * scale)
            return at_sequence

        return self.project(values), pull_back

    def _gather_first(
        self, query: Float[Tensor, "b h c"], sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None
    ) -> Float[Tensor, "b c"]:
        """The values that a single query gathers, as those of a mean of the sequence: softmax(q W_k xᵀ + bias) x W_vᵀ."""
        logits = query @ sequence.transpose(1, 2)
        if attn_bias is not None:
            logits += attn_bias[..., 0, :].to(logits.dtype)
        weights = _short_softmax(logits) if _is_short(query, logits.shape[-1]) else logits.softmax(-1)
        mean = weights @ sequence
        value_weights = self.qkv.weight[2 * sequence.shape[-1] :].unflatten(0, (self.heads, -1))
        return (mean.transpose(0, 1) @ value_weights.transpose(1, 2)).transpose(0, 1).flatten(1)


def pays_off(sequence: Tensor) -> bool:
    """Whether gradients that are written out are faster than autograd: on a CPU, where attention is not one kernel."""
    plain = sequence.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    return plain and sequence.shape[1] <= MAX_WRITTEN_OUT


def _is_short(query: Tensor, keys: int) -> bool:
    """Whether plain operations are faster than torch's attention and softmax on a CPU, which are slow over few keys. Graphs
    have a softmax of their own: what is traced is no plain tensor."""
    return (
        type(query) is Tensor
        and query.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and query.shape[0] >= MIN_SAMPLES
        and keys <= MAX_KEYS
    )


def _short_attention(query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None) -> Tensor:
    """softmax(query · key / √c + bias) · value."""
    logits = query @ key.transpose(-2, -1)
    logits *= query.shape[-1] ** -0.5
    if attn_bias is not None:
        logits += attn_bias
    return _short_softmax(logits) @ value


def _short_softmax(logits: Tensor) -> Tensor:
    """softmax(logits), whose memory is used again."""
    logits -= logits.detach().amax(-1, keepdim=True)
    weights = logits.clamp_min_(MIN_EXPONENT).exp_()
    return weights / weights.sum(-1, keepdim=True)


def split_heads(heads: int, *parts: Float[Tensor, "b _ c"]) -> tuple[Float[Tensor, "b {heads} _ _"], ...]:
    return tuple(part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)


class Block(nn.Module):
    """x + Attention(LN(x)), then x + MLP(LN(x)) with an exact GELU.

    >>> Block(128, heads=4)(torch.zeros(2, 21, 128)).shape
    torch.Size([2, 21, 128])
    """

    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))

    def forward(
        self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None = None, reads: int | None = None
    ) -> Float[Tensor, "b r c"]:
        """The new states of the first `reads` positions (all when None)."""
        return self.finish(sequence, *self.entry(sequence, reads), attn_bias=attn_bias)

    def entry(self, sequence: Float[Tensor, "b s c"], reads: int | None = None) -> tuple[Tensor, ...]:
        """What attention computes before the bias: queries, keys and values (see `Attention.split`)."""
        return self.attention.split(self.attention_norm(sequence), reads)

    def finish(
        self, sequence: Float[Tensor, "b s c"], *entry: Tensor, attn_bias: Tensor | None
    ) -> Float[Tensor, "b r c"]:
        """The new states of the positions that have a query."""
        gathered = self.attention.gather(*entry, attn_bias=attn_bias)
        state = sequence[:, : gathered.shape[1]] + gathered
        return state + self.mlp(self.mlp_norm(state))

    def with_pull_back(
        self, sequence: Float[Tensor, "b s c"], attn_bias: Tensor | None, reads: int | None
    ) -> tuple[Float[Tensor, "b r c"], tuple[Tensor, ...], PullBack]:
        """What `forward` and `entry` give, and the pull-back of the former to the sequence. It is written out because
        autograd takes longer than the arithmetic for few samples."""
        normed, norm_back = _norm(self.attention_norm, sequence)
        # each part is multiplied by others several times, by this pass, its pull-back and the gated pass: one copy for all
        entry = tuple(part.contiguous() for part in self.attention.split(normed, reads))
        gathered, attention_back = self.attention.with_pull_back(normed, entry, attn_bias)
        reached = gathered.shape[1]
        state = sequence[:, :reached] + gathered
        state_normed, mlp_norm_back = _norm(self.mlp_norm, state)
        widen, activate, narrow = self.mlp
        assert isinstance(widen, nn.Linear)
        assert isinstance(narrow, nn.Linear)
        wide = widen(state_normed)

        def pull_back(gradient: Tensor) -> Tensor:
            at_wide = torch.ops.aten.gelu_backward(gradient @ narrow.weight, wide)
            at_state = gradient + mlp_norm_back(at_wide @ widen.weight)
            at_sequence = norm_back(attention_back(at_state))
            if reached == sequence.shape[1]:
                return at_sequence + at_state
            at_sequence[:, :reached] += at_state
            return at_sequence

        return state + narrow(activate(wide)), entry, pull_back


def _norm(layer: nn.LayerNorm, x: Tensor) -> tuple[Tensor, PullBack]:
    """A LayerNorm and its pull-back."""
    shape, weight, bias = layer.normalized_shape, layer.weight, layer.bias
    normed, mean, scale = torch.native_layer_norm(x, shape, weight, bias, layer.eps)

    def pull_back(gradient: Tensor) -> Tensor:
        if torch.jit.is_tracing():  # type: ignore[attr-defined]  # TorchScript does not know the operator
            direction, scaled = (x - mean) * scale, gradient * weight
            along = direction * (scaled * direction).mean(-1, keepdim=True)
            return (scaled - scaled.mean(-1, keepdim=True) - along) * scale
        return torch.ops.aten.native_layer_norm_backward(
            gradient, x, shape, mean, scale, weight, bias, [True, False, False]
        )[0]

    return normed, pull_back


def initialise(module: nn.Module) -> None:
    """Linear and Embedding weights N(0, 0.02²), biases 0, LayerNorm (1, 0); convolutions keep torch's own, and parts that
    are `pretrained` what they have loaded.

    NOTE[PAPER] initialisation: the published PolyMNIST code skips this by accident; here it is done as intended.
    """
    loaded = {layer for part in module.modules() if getattr(part, "pretrained", False) for layer in part.modules()}
    for layer in module.modules():
        if layer in loaded:
            continue
        if isinstance(layer, nn.Linear | nn.Embedding):
            nn.init.normal_(layer.weight, std=0.02)
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)


def small_parameter(*shape: int) -> nn.Parameter:
    """A learned embedding, truncated normal with deviation 0.02."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(*shape), std=0.02))
