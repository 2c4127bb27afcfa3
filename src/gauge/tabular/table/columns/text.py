"""Texts, encoded as the numbers of their words in the training texts, or of their tokens in a pretrained tokenizer."""

import logging
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from gauge.tabular.table.cells import SINGLE, WORD, as_words, has_category_type, missing, plain_cells, visible
from gauge.tabular.table.columns import Column, Content, Guess, ImageFiles, Part, ReadOptions
from gauge.tabular.table.guard import WATCH, note, upper_share
from gauge.tabular.table.numbers import MAX_LOOKED_AT, unread_numbers
from gauge.tabular.table.pretrained import Pretrained

if TYPE_CHECKING:
    from gauge.types import Encoder

__all__ = ["Text", "PretrainedText"]

logger = logging.getLogger(__name__)

MAX_WORDS, MAX_TOKENS = 48, 64  # of the longest text; tokens are those of a pretrained encoder


class Words(Content):
    """Texts as numbers of words, 0 after the end of a text; `length` words of a text become units."""

    length: int
    kind: ClassVar[str] = "text"
    order: ClassVar[int] = 2
    precedence: ClassVar[int] = 3
    takes_encoder: ClassVar[bool] = True

    @abstractmethod
    def split(self, text: str) -> list[str]:
        """The words that become units, as written."""

    @abstractmethod
    def codes(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """The numbers of the words of each text that become units."""

    def encode(
        self, column: pd.Series, files: ImageFiles = ImageFiles(), *, training: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.zeros((len(column), self.length), np.int64)
        cells, rows = column.tolist(), np.flatnonzero(~missing(column))
        for row, codes in zip(rows, self.codes(str(cells[row]) for row in rows), strict=True):
            numbers[row, : len(codes)] = codes
        return numbers, numbers[:, 0] > 0

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        cells = [visible(cell) if isinstance(cell, str) else cell for cell in plain_cells(column).tolist()]
        return pd.Series(cells, column.index, object, column.name)

    def texts(self, column: pd.Series) -> np.ndarray:
        column = self.clean(column)
        texts = np.full(len(column), "", object)
        cells, rows = column.tolist(), np.flatnonzero(~missing(column))
        texts[rows] = [str(cells[row]) for row in rows]
        return texts

    def parts(self, cell: Any, values: np.ndarray, count: int | None) -> list[Part]:
        return [Part(word, word) for word in self.split(visible(str(cell)))]

    def hide_part(self, values: np.ndarray, index: int, count: int) -> None:
        """Leave a word out: those after it move up."""
        values[index:-1] = values[index + 1 :].copy()
        values[-1] = 0


@dataclass(frozen=True)
class Text(Words):
    """`words` are those of the training texts, the most frequent first; 1 is the number of all others. At most the share
    `strange` of further texts has most of its words in no training text, but for chance. Where these had few `forms`, as
    times and several numbers have, at most the share `formless` has another one."""

    name: str
    words: tuple[str, ...]
    length: int
    strange: float = 0.0
    forms: tuple[str, ...] = ()
    formless: float = 0.0
    max_forms: ClassVar[int] = 20
    max_vocabulary: ClassVar[int] = 5000
    first_word: ClassVar[int] = 2  # number of a word; 0 is padding, 1 a word that training had not, or rarely
    word: ClassVar[re.Pattern[str]] = re.compile(rf"{WORD}|[^\w\s]")  # or a punctuation mark

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        if has_category_type(values):
            return None
        words = as_words(values)
        if words.str.fullmatch(r"\{?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\}?").mean() > 0.9:
            return Guess("its values are UUIDs", ignored=True)
        different = words.nunique()
        if different > 20 and words.str.count(rf"[{SINGLE}]{{1,2}}|[^\W{SINGLE}]+").mean() >= 3:  # fewer are categories
            return Guess()
        if different > 20 and _are_lists(words):
            return Guess("lists of words that recur")
        names = different > max(20, len(words) / 2) and words.str.count(r"\S+").mean() >= 2
        return Guess("most values differ, and their words recur") if names and _recurs(words) else None

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = ReadOptions()) -> Words:
        if options.encoder is not None:
            return PretrainedText.from_column(column, options)
        given = cls.clean(column[~missing(column)]).map(str)
        if problem := unread_numbers(given.head(MAX_LOOKED_AT)):
            logger.warning("column %r: %s", column.name, problem)
        texts = [cls.word.findall(text) for text in given]
        counts = Counter(word.lower() for text in texts for word in text)
        lengths = np.array([len(text) for text in texts])
        length = int(np.clip(np.quantile(lengths, 0.95), 1, MAX_WORDS))
        known = [
            word for word, _ in sorted(counts.most_common(cls.max_vocabulary), key=lambda item: (-item[1], item[0]))
        ]
        vocabulary = set(known)
        alone = [
            sum(own[word] == counts[word] or word not in vocabulary for word in own.elements()) > own.total() / 2
            for text in texts
            if (own := Counter(map(str.lower, text[:length])))
        ]
        forms = Counter(map(_form, given))
        single = upper_share(sum(count == 1 for count in forms.values()), len(given))  # as Good and Turing
        short = all("0" in form and len(re.findall(r"[^\W\d]+", form)) <= 2 for form in forms)  # no sentences
        few = tuple(sorted(forms)) if short and len(forms) <= cls.max_forms < len(given) else ()
        return cls(str(column.name), tuple(known), length, upper_share(sum(alone), len(alone)), few, single)

    def encode(
        self, column: pd.Series, files: ImageFiles = ImageFiles(), *, training: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers, observed = super().encode(column, files, training=training)
        if not training and WATCH.get() is not None:
            strange = 2 * (numbers == 1).sum(1) > (numbers > 0).sum(1)
            note(column, np.flatnonzero(strange), "has mostly words that training never saw", share=self.strange)
            if self.forms:
                new = [row for row, cell in enumerate(column) if observed[row] and _form(str(cell)) not in self.forms]
                note(column, new, f"is written as no text of training, such as {self.forms[0]!r}", share=self.formless)
        return numbers, observed

    @classmethod
    def inspect(cls, values: pd.Series, options: ReadOptions = ReadOptions()) -> tuple[np.ndarray, list[str]]:
        absent, problems = super().inspect(values, options)
        problem = unread_numbers(values.head(MAX_LOOKED_AT).map(str))
        return absent, [*problems, problem] if problem else problems

    @property
    def saved_problem(self) -> str:
        fine = 1 <= self.length <= MAX_WORDS and len(set(self.words)) == len(self.words) <= self.max_vocabulary
        return "" if fine else f"it reads {self.length} words, or knows more than {self.max_vocabulary}, or one twice"

    @classmethod
    def from_json(cls, content: Mapping[str, Any], folder: Path) -> Column:
        return PretrainedText.from_json(content, folder) if "model" in content else super().from_json(content, folder)

    @cached_property
    def word_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, self.first_word)}

    def split(self, text: str) -> list[str]:
        return [word.group() for word in islice(self.word.finditer(text), self.length)]

    def codes(self, texts: Iterable[str]) -> Iterator[list[int]]:
        return ([self.word_numbers.get(word.lower(), 1) for word in self.split(text)] for text in texts)

    def encoder(self, dim: int, channels: Sequence[int], *, weights: bool) -> "Encoder":
        from gauge.encoders.tokens import Tokens

        return Tokens((self.length,), dim, words=len(self.words) + self.first_word)

    def unread(self, column: pd.Series) -> str:
        longer = 100 * np.mean([len(self.word.findall(text)) > self.length for text in self.texts(column) if text])
        if not longer:
            return ""
        return (
            f"column {self.name!r}: the network reads the first {self.length} words; {longer:.0f} % of the texts are "
            "longer, only trees and the linear expert read them whole"
        )

    def parts(self, cell: Any, values: np.ndarray, count: int | None) -> list[Part]:
        if count is not None:
            return super().parts(cell, values, count)
        # trees and the linear expert read a text whole
        return [Part(word, word) for word in self.word.findall(visible(str(cell)))]

    def text_without(self, text: str, index: int) -> str:
        word = list(self.word.finditer(text))[index]
        return text[: word.start()] + text[word.end() :]


@dataclass(frozen=True)
class PretrainedText(Words):
    """The numbers are those of tokens plus one. `prefix` and `suffix` are the special tokens around a text ([CLS], [SEP]):
    the encoder adds them, and they are never shown."""

    name: str
    length: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    model: Pretrained

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = ReadOptions()) -> "PretrainedText":
        assert options.encoder is not None
        model = Pretrained.for_texts(options.encoder)
        texts = [str(text) for text in column[~missing(column)]]
        encoded = model.tokenizer(texts, return_special_tokens_mask=True, verbose=False)
        lengths = [mask.count(0) for mask in encoded["special_tokens_mask"]]
        longest = int(np.argmax(lengths))
        if not lengths[longest]:
            raise ValueError(
                f"the tokenizer of {options.encoder!r} finds no token in {column.name!r}; use a model of its language"
            )
        tokens, mask = encoded["input_ids"][longest], encoded["special_tokens_mask"][longest]
        start, end = mask.index(0), len(mask) - mask[::-1].index(0)
        length = int(np.clip(np.quantile(lengths, 0.95), 1, MAX_TOKENS))
        return cls(str(column.name), length, tuple(tokens[:start]), tuple(tokens[end:]), model)

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"model": self.model.to_json()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], folder: Path) -> Column:
        return super().from_json({**content, "model": Pretrained.from_json(content["model"], folder)}, folder)

    @property
    def saved_problem(self) -> str:
        special = (*self.prefix, *self.suffix)
        fine = len(special) <= MAX_TOKENS and all(0 <= token < 10**7 for token in special)
        if self.model.tokenizer is None:
            return "its tokenizer is missing"
        return "" if fine and 1 <= self.length <= MAX_TOKENS else f"it reads {self.length} tokens, or has special ones"

    def save_files(self, folder: Path) -> None:
        self.model.tokenizer.save_pretrained(folder)

    @property
    def encoder_source(self) -> str:
        return self.model.source

    @property
    def export_problem(self) -> str:
        return (
            f"column {self.name!r} is read by the tokenizer of {self.model.source!r}, which cannot be exported; "
            "fit without a pretrained encoder for it, or export `model_`, the network alone"
        )

    def split(self, text: str) -> list[str]:
        spans = self._tokens(text, return_offsets_mapping=True)["offset_mapping"][: self.length]
        return [text[start:end].strip() or "…" for start, end in spans]

    def codes(self, texts: Iterable[str]) -> Iterator[list[int]]:
        return ([token + 1 for token in self._tokens(text)["input_ids"][: self.length]] for text in texts)

    def encoder(self, dim: int, channels: Sequence[int], *, weights: bool) -> "Encoder":
        from gauge.encoders._pretrained import PretrainedTokens

        tokens = self.model.tokenizer.get_vocab().values()
        network = self.model.network(weights=weights)
        return PretrainedTokens(network, self.length, self.prefix, self.suffix, vocabulary=max(tokens) + 1)

    def _tokens(self, text: str, **options: bool) -> Any:
        return self.model.tokenizer(text, add_special_tokens=False, verbose=False, **options)


def _form(text: str) -> str:
    """The text with 0 in the place of numbers."""
    return re.sub(r"\d+", "0", text.lower().strip())


def _are_lists(texts: pd.Series) -> bool:
    """Whether many values are lists such as "red;blue" of words that are fewer than the lists."""
    different = texts.unique()
    for mark in ";|,":
        parts = [part.strip().lower() for text in different for part in text.split(mark)]
        if len(parts) >= 1.5 * len(different) and len(set(parts)) <= len(different) / 2:
            return True
    return False


def _recurs(texts: pd.Series) -> bool:
    """Whether enough of the words are in more than one of the different texts."""
    words = [word for text in texts.str.lower().unique() for word in {*text.split()}]
    counts = Counter(words)
    return sum(counts[word] > 1 for word in words) >= 0.5 * len(words)
