"""wrap(): gates for a trained Transformer of another library, which keeps its embeddings, masks, pooling and head.

The tokens that enter the first block are the units. They are scored in one ungated pass (Eq. 4), and the logarithm of each
gate is added to the attention on its token in every block (Eqs. 8 and 9).
"""

from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from gauge.backbones.blocks import find_blocks
from gauge.paper.gauge import Gate, attention_bias, normalize_scores, taylor_evidence
from gauge.types import Scorer
from gauge.values import Evidence, Prediction
from gauge.wrapping.checks import check_gradient, check_logits, measured_average, measured_bypass, measured_leak
from gauge.wrapping.classifier import Average, TokenClassifier, effects_of_closing, evaluated
from gauge.wrapping.explanation import TokenExplanation


def wrap(
    model: nn.Module,
    *,
    fixed: int | None = None,
    gate: Gate | None = None,
    score: Scorer = taylor_evidence,
    max_leak: float = 0.05,
) -> "Wrapped":
    """Return a fine-tuned Transformer that also tells which tokens its predictions rest on: exact effects that are checked
    on the model itself, as a page or a DataFrame, and as one ONNX file.

    All gates are open, and predictions are those of the model, until gates are trained, in a training loop, or
    set: with `gate=Gate()` they start half open for a token of average score, as in the paper.

    Parameters
    ----------
    model
        A classifier of Hugging Face, timm or your own.
    fixed
        The number of first positions that are never gated: by default those that are the same for every input (CLS,
        registers), one position of a text, and the first position if the head reads it alone.
    gate
        How scores become gates; given one, gates are applied from the start.
    score
        How tokens are scored.
    max_leak
        The largest share of a token's effect that may be left when its gate is closed.

    Returns
    -------
    Wrapped
        An `nn.Module` that takes the place of the model.

    Notes
    -----
    The first batch shows whether the model can be gated, and so does every longer one: read through its tokens it has to
    have the logits of the model itself, and of the effect of a token whose gate is closed at most the share `max_leak` may
    be left. Otherwise it is refused. What the head reads is learned from batches with a sample of three tokens or more.

    Examples
    --------
    >>> from gauge.nn.attention import Transformer
    >>> class Reader(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.embed, self.body, self.head = nn.Embedding(9, 8), Transformer(8, heads=2, depth=2), nn.Linear(8, 3)
    ...
    ...     def forward(self, words):
    ...         return self.head(self.body(self.embed(words))[:, 0])
    >>> model, words = wrap(Reader().eval(), fixed=1), torch.tensor([[0, 5, 3, 7], [0, 2, 8, 2]])
    >>> model.predict(words).logits.shape, model.explain(words, exact=True).to_frame().columns.tolist()[-1]
    (torch.Size([2, 3]), 'used')
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"wrap takes an nn.Module, not {type(model).__name__}; give the model itself (pipeline.model)")
    if isinstance(model, Wrapped):
        raise ValueError("this model is wrapped already; use it as it is, or wrap its .model anew")
    if fixed is not None and fixed < 0:
        raise ValueError(f"fixed is {fixed}; give the number of positions that are never gated, 0 or more")
    wrapped = Wrapped(model, fixed=fixed, gate=Gate() if gate is None else gate, score=score, max_leak=max_leak)
    wrapped.applies_gates, wrapped.training = gate is not None, model.training
    return wrapped


class Wrapped(nn.Module):
    """A gated classifier around a model, as `wrap` returns it.

    All methods take the inputs of the model. Calling it returns what the model returns, computed with gates, so that it can
    replace the model in a training loop.

    Parameters
    ----------
    model, fixed, gate, score, max_leak
        As for `wrap`.

    Attributes
    ----------
    model
        The model that was wrapped.
    applies_gates
        Whether gates are applied. Otherwise all are open, until training turns this on.
    leak
        The share of a closed token's effect that is left, None before the first batch; it is measured again on batches that
        are longer than all before.
    average
        What the head averages if it reads a mean of tokens, which gates then weigh: the name of the module that returns
        their vectors, and whether those of the fixed positions are averaged, too.
    reads_last
        Whether the head reads the last token, as those of decoders do; its gate is then 1.

    Examples
    --------
    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> model = wrap(BertForSequenceClassification(BertConfig(hidden_size=12, num_hidden_layers=1, num_labels=3)).eval())
    >>> words = torch.tensor([[1, 5, 3, 7]])
    >>> model(input_ids=words).logits.shape, model.applies_gates
    (torch.Size([1, 3]), False)
    """

    applies_gates: bool = True
    accepts_loss_kwargs = False  # asked by Hugging Face's Trainer, which then averages over accumulated batches itself

    def __init__(self, model: nn.Module, *, fixed: int | None, gate: Gate, score: Scorer, max_leak: float) -> None:
        super().__init__()
        decodes = any(name.rpartition(".")[2] == "decoder" for name, _ in model.named_modules())
        if decodes and getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            raise ValueError(
                f"{type(model).__name__} is an encoder-decoder, which wrap does not support; use a classifier on the "
                "encoder alone"
            )
        if find_blocks(model)[1] is model:
            raise ValueError(
                f"{type(model).__name__} has no list of Transformer blocks to gate; pass a model with an nn.ModuleList or "
                "nn.Sequential of blocks"
            )
        self.model, self.gate, self.fixed, self.score = model, gate, fixed, score
        self.max_leak, self.reads_last = max_leak, False
        self.average: Average | None = None
        self.leak: float | None = None
        self.longest = 0  # tokens of a sample, among the batches that were checked
        self.masked = False  # whether one of them had a mask
        self.attentions: int | None = None  # that gates reach

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.applies_gates, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        self.applies_gates = bool(state)

    def forward(self, *args: Any, **inputs: Any) -> Any:
        self.applies_gates |= self.training and torch.is_grad_enabled()
        classifier = self.read(*args, **inputs)
        _, gates = self._weigh(classifier)
        return classifier.run(classifier.tokens, attention_bias(gates), labels=True)

    @torch.no_grad()
    def predict(self, *args: Any, **inputs: Any) -> Prediction:
        """Return logits, evidence and gates, in eval mode.

        Parameters
        ----------
        *args, **inputs
            The inputs of the model.

        Returns
        -------
        Prediction
            With one gate for every token after the fixed ones, 0 for padding and 1 for a token that the head reads.

        Examples
        --------
        >>> model.predict(input_ids=words).gates
        tensor([[1., 1., 1.]])
        """
        with evaluated(self):  # dropout would blur what is measured
            classifier = self.read(*args, **inputs)
            evidence, gates = self._weigh(classifier)
            return Prediction(classifier(classifier.tokens, attention_bias(gates)), evidence, gates)

    @torch.no_grad()
    def explain(self, *args: Any, exact: bool = False, **inputs: Any) -> TokenExplanation:
        """Return score, gate and attention of every token, in eval mode.

        Parameters
        ----------
        *args, **inputs
            The inputs of the model.
        exact
            Whether to measure also how far the probability of the predicted class falls when the gate of a token is closed,
            which takes a pass for every token.

        Returns
        -------
        TokenExplanation
            As a DataFrame (`to_frame`) or a page (`to_html`).

        Examples
        --------
        >>> model.explain(input_ids=words, exact=True).effects.shape
        torch.Size([1, 3])
        """
        with evaluated(self):
            classifier = self.read(*args, **inputs)
            evidence, gates = self._weigh(classifier)
            bias = attention_bias(gates)
            readers = classifier.reading_positions

            def received(attn_bias: Tensor | None) -> Tensor:
                weights = classifier.attention(classifier.tokens, attn_bias)[..., classifier.fixed :].mean(1)
                return (weights * readers[..., None]).sum(1) / readers.sum(1, keepdim=True).clamp_min(1)

            logits = classifier(classifier.tokens, bias)
            return TokenExplanation(
                logits,
                evidence,
                gates,
                classifier.visible,
                received(None),
                received(bias),
                effects_of_closing(classifier, gates) if exact else None,
                _class_names(self.model, logits.shape[1]),
                self._facts(),
                classifier.fixed,
            )

    def _facts(self) -> dict[str, str]:
        threshold, temperature = self.gate.threshold.item(), self.gate.log_temperature.exp().item()
        return {
            "Model": type(self.model).__name__,
            "Gates": f"threshold {threshold:.3g}, temperature {temperature:.3g}" if self.applies_gates else "open",
            "Passes a closed gate": f"{100 * (self.leak or 0.0):.1f} % of a token's effect",
        }

    def read(self, *args: Any, **inputs: Any) -> TokenClassifier:
        """Return the model as a classifier of the tokens of this batch, for `taylor_evidence` or `exact_effects`.

        Parameters
        ----------
        *args, **inputs
            The inputs of the model, also as the mapping that a tokenizer returns. The first batch, and one that is longer
            than all before, shows whether the model can be gated.

        Returns
        -------
        TokenClassifier
            A function of tokens and a bias; its `tokens` are those of the batch.

        Examples
        --------
        >>> classifier = model.read(input_ids=words)
        >>> taylor_evidence(classifier, classifier.tokens).scores.shape
        torch.Size([1, 3])
        """
        if len(args) == 1 and isinstance(args[0], Mapping) and {*args[0]} & {*signature(self.model.forward).parameters}:
            inputs, args = {**args[0], **inputs}, ()  # what a tokenizer returns
        given = next((each for each in (*args, *inputs.values()) if isinstance(each, str)), None)
        if given is not None:
            raise ValueError(
                f"the model reads tensors, not the text {given[:40]!r}; give it what its tokenizer makes of it, as in "
                "predict(**tokenizer(text, return_tensors='pt'))"
            )
        if self.training and any(getattr(module, "gradient_checkpointing", False) for module in self.model.modules()):
            raise ValueError(
                "gradient checkpointing repeats the forward pass without gates; call model.gradient_checkpointing_disable()"
            )
        seen: dict[str, Any] = {"average": self.average, "reads_last": self.reads_last}
        read = partial(TokenClassifier, self.model, args, inputs, self.fixed, **seen)
        classifier = read(attentions=self.attentions)
        known = self.leak is not None and (self.masked or not classifier.mask)
        if known and classifier.tokens.shape[1] <= self.longest:
            return classifier
        if self.fixed is not None and not classifier.tokens.shape[1]:
            raise ValueError(
                f"fixed is {self.fixed}, as many as there are positions, so that no token has a gate; fix fewer"
            )
        with evaluated(self.model):  # dropout in its embeddings would change the tokens
            checked, leak = self._check(read())
        classifier = classifier.fixing(checked.fixed)
        learned = ("average", "reads_last", "attentions")
        for name in learned:
            setattr(classifier, name, getattr(checked, name))
        check_gradient(classifier)
        if leak is not None:
            self.leak, self.masked = leak, self.masked or bool(classifier.mask)
            if classifier.positions_visible.sum(1).max() > 2:  # fewer do not tell which of them the head reads
                self.longest = max(self.longest, classifier.tokens.shape[1])
                for name in ("fixed", *learned):
                    setattr(self, name, getattr(classifier, name))
        return classifier

    def _check(self, classifier: TokenClassifier) -> tuple[TokenClassifier, float | None]:
        """Whether the model has the same logits through its tokens as by itself; the classifier that knows what the head
        reads, and how many positions are fixed; and the leak of a closed token."""
        check_logits(classifier)
        bypass = measured_bypass(classifier)
        if bypass is not None and bypass > self.max_leak:
            raise ValueError(
                f"{100 * bypass:.0f} % of the effect of an input on the logits of {type(self.model).__name__} go around the "
                f"tokens that enter its blocks, more than {100 * self.max_leak:.0f} %, where no gate is; wrap the part of "
                "the model that reads the tokens alone, or accept it with max_leak=1"
            )
        leak = measured_leak(classifier)
        if leak is not None and leak > self.max_leak and self.fixed is None and classifier.fixed == 0:
            first = classifier.fixing(1)  # a head that reads the first position reads it behind a closed gate, too
            other = measured_leak(first)
            other = measured_leak(first, last=True) if other is None else other  # of two tokens
            if other is not None and other <= self.max_leak:
                classifier, leak = first, other
        if leak is not None and (leak > self.max_leak or classifier.average):
            classifier, leak = self._averaged(classifier, leak)  # a head that averages tokens reads closed ones, too
        if leak is not None and leak > self.max_leak:
            raise ValueError(
                f"{100 * leak:.0f} % of a token's effect on the logits of {type(self.model).__name__} pass its closed gate, "
                f"more than {100 * self.max_leak:.0f} %; its tokens meet outside of full attention (convolutions, sparse "
                "or windowed attention), its head reads all tokens and not their mean, or attention logits outweigh a "
                "closed gate. Use another model, or accept it with max_leak=1"
            )
        last = measured_leak(classifier, last=True)
        classifier.reads_last = self.reads_last if last is None else last > self.max_leak
        classifier.attentions = classifier.attend(classifier.tokens).calls
        known = [each for each in (leak, None if classifier.reads_last else last) if each is not None]
        return classifier, max(known, default=self.leak)

    def _averaged(self, classifier: TokenClassifier, leak: float) -> tuple[TokenClassifier, float]:
        """The classifier whose gates weigh what its head averages, if that lets less of a token's effect pass."""
        averages = classifier.averages() if classifier.average is None else [classifier.average]
        shares = [(measured_average(classifier.averaging(each)), each) for each in averages]
        if not shares:  # the blocks return their states behind something else
            return classifier, leak
        # of two that differ by rounding alone, the one that weighs all that is averaged
        share, average = min(shares, key=lambda known: known[0] - 1e-4 * known[1].over_fixed)
        other = max(share, measured_leak(classifier.averaging(average)) or 0.0)
        if other < leak or classifier.average is not None:
            return classifier.averaging(average), other
        return classifier, leak

    def _weigh(self, classifier: TokenClassifier) -> tuple[Evidence, Tensor]:
        evidence, readers = self.score(classifier, classifier.tokens), classifier.readers
        evidence = Evidence(torch.where(classifier.visible, evidence.scores, 0.0), evidence.logits)
        gates = torch.ones_like(evidence.scores)
        if self.applies_gates:
            gates = self.gate(normalize_scores(evidence.scores, visible=classifier.visible & ~readers))
        return evidence, torch.where(readers, 1.0, torch.where(classifier.visible, gates, 0.0))


def _class_names(model: nn.Module, count: int) -> tuple[str, ...]:
    """Those in the configuration of a Hugging Face model, otherwise the numbers of the classes."""
    names = getattr(getattr(model, "config", None), "id2label", None) or {}
    return tuple(str(names.get(index, index)) for index in range(count))
