"""Signals of any length with one or several channels: arrays, or .wav, .npy and .csv files by their paths or bytes."""

import base64
import binascii
import io
import json
import logging
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from pydantic import AfterValidator

from gauge.data.graph import Graph
from gauge.tabular.table.cells import MIN_SAMPLES, absent_files, as_words, has_category_type, missing, paths_or_bytes
from gauge.tabular.table.columns import (
    ANYWHERE,
    DEFAULT_OPTIONS,
    Content,
    Guess,
    ImageFiles,
    Part,
    Question,
    ReadOptions,
    report_absent_files,
    report_unreadable,
)

if TYPE_CHECKING:
    from gauge.types import Encoder

__all__ = ["Signal"]

logger = logging.getLogger(__name__)

WAV, NPY = b"RIFF", b"\x93NUMPY"  # how the files begin
MAX_FILE_SAMPLES = 2**26


class Recording(NamedTuple):
    """Samples, and how many of them there are in a second; 0 if that is not known."""

    samples: np.ndarray
    rate: float = 0.0


@dataclass(frozen=True)
class Signal(Content):
    """`length` values of each channel are read, each the mean of `step` samples. `rate` is that of the samples in Hz, 0 if
    not known; files with another rate are resampled. `means` and `deviations` are those of the channels in training."""

    name: str
    channels: int
    length: int
    step: int
    rate: float
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    suffixes: ClassVar[tuple[str, ...]] = (".wav", ".npy", ".csv")
    max_channels: ClassVar[int] = 64
    max_samples: ClassVar[int] = (
        8192  # of each channel that are read; consecutive samples of longer signals are averaged
    )
    units: ClassVar[int] = 16  # parts along time
    kind: ClassVar[str] = "signal"
    order: ClassVar[int] = 4
    precedence: ClassVar[int] = 0
    read_by_trees: ClassVar[bool] = True
    by_components: ClassVar[bool] = False
    display: ClassVar[Any] = "signal"

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        if has_category_type(values) or pd.api.types.is_numeric_dtype(values):
            return None
        arrays = values.map(lambda value: isinstance(value, np.ndarray) and value.ndim < 3).to_numpy(bool)
        words = as_words(values[~arrays])
        lists = words.str.fullmatch(r"\s*\[[\s\d.,eE+\-\[\]]*\]\s*") & (words.str.count(",") >= MIN_SAMPLES - 1)
        files = words.str.lower().str.endswith(Signal.suffixes) | words.str.match(r"b['\"](?:RIFF.*WAV|\\x93NUMPY)")
        return Guess() if arrays.sum() + (lists | files).sum() > 0.8 * len(values) else None

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = DEFAULT_OPTIONS) -> "Signal":
        cells = column[~missing(column)].tolist()
        chosen = np.linspace(0, len(cells) - 1, min(len(cells), 500)).astype(int)  # they show length, rate and scale
        recordings, reason = [], "it has none"
        for index in chosen:
            try:
                recordings.append(_recording(cells[index], options.files))
            except (ValueError, OSError) as error:
                reason = str(error)
        if not recordings:
            raise ValueError(
                f"no signal of column {column.name!r} can be read ({reason}); give arrays, or the paths of .wav, .npy or "
                ".csv files, or set another kind in columns="
            )
        channels = Counter(len(each.samples) for each in recordings).most_common(1)[0][0]
        rate = Counter(each.rate for each in recordings).most_common(1)[0][0]
        alike = [_at_rate(each, rate) for each in recordings if len(each.samples) == channels]
        longest = max(1, round(float(np.quantile([samples.shape[1] for samples in alike], 0.95))))
        step = math.ceil(longest / Signal.max_samples)
        every = np.concatenate(alike, 1)
        deviations = np.nan_to_num(np.nanstd(every, 1))
        return cls(
            str(column.name),
            channels,
            min(Signal.max_samples, Signal.units * math.ceil(longest / step / Signal.units)),
            step,
            float(rate),
            tuple(np.nan_to_num(np.nanmean(every, 1)).tolist()),
            tuple(np.where(deviations > 0, deviations, 1.0).tolist()),
        )

    @classmethod
    def inspect(cls, values: pd.Series, options: ReadOptions = DEFAULT_OPTIONS) -> tuple[np.ndarray, list[str]]:
        absent = np.array([_is_path(cell) and bool(options.files.absence(cell)) for cell in values], bool)
        return absent, absent_files(values[absent], cls.kind)

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        return paths_or_bytes(column)

    def encode(
        self, column: pd.Series, files: ImageFiles = ANYWHERE, *, training: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        values = np.zeros((len(column), self.channels, self.length), np.float32)
        observed, broken, cut = np.zeros(len(column), bool), dict[int, str](), 0
        cells, rows = column.tolist(), np.flatnonzero(~missing(column)).tolist()
        absent: dict[str, list[int]] = {}
        for row in rows:
            if _is_path(cells[row]) and (reason := files.absence(cells[row])):
                absent.setdefault(reason, []).append(row)
                continue
            try:
                scaled = self._scaled(_recording(cells[row], files))
            except (ValueError, OSError) as error:
                broken[row] = str(error)
                continue
            cut += scaled.shape[1] > self.length
            values[row, :, : scaled.shape[1]] = scaled[:, : self.length]
            observed[row] = True
        report_absent_files(column, absent, self.kind)
        if broken:
            known = len(rows) - sum(map(len, absent.values()))
            report_unreadable(column, sorted(broken), broken[min(broken)], known if training else None)
        if training and cut:
            logger.warning(
                "column %r: of signals longer than %d samples only the start is read; %d are longer",
                *(self.name, self.length * self.step, cut),
            )
        return values, observed

    def _scaled(self, recording: Recording) -> np.ndarray:
        """The values that are read, with mean 0 and deviation 1 in training: [channels, at least one]."""
        if len(recording.samples) != self.channels:
            raise ValueError(f"a signal with {len(recording.samples)} channels, where training had {self.channels}")
        samples = _at_rate(recording, self.rate)
        scaled = (samples - np.array(self.means)[:, None]) / np.array(self.deviations)[:, None]
        if np.isnan(scaled).mean() > 0.5:
            raise ValueError("a signal whose samples are mostly missing")
        scaled = np.nan_to_num(scaled).clip(-20, 20)
        whole = scaled.shape[1] // self.step * self.step
        return scaled[:, :whole].reshape(self.channels, -1, self.step).mean(2) if whole else scaled.mean(1)[:, None]

    @property
    def note(self) -> str:
        channels = "1 channel" if self.channels == 1 else f"{self.channels} channels"
        rate = f" at {self.rate:g} Hz" if self.rate else ""
        return f"signals with {channels}{rate}, up to {self.length * self.step} samples"

    @property
    def values_per_row(self) -> int:
        return self.channels * self.length

    @property
    def saved_problem(self) -> str:
        scales = (*self.means, *self.deviations)
        usable = (
            1 <= self.channels <= Signal.max_channels
            and len(self.means) == len(self.deviations) == self.channels
            and Signal.units <= self.length <= Signal.max_samples
            and self.length % Signal.units == 0
            and 1 <= self.step <= 10**9
            and all(map(math.isfinite, (self.rate, *scales)))
            and min(self.rate, 0) == 0
            and min(self.deviations) > 0
        )
        return "" if usable else f"its signals have {self.channels} channels of {self.length} values, or no scale"

    def request_type(self, *, max_pixels: int) -> Any:
        kinds = Annotated[str | list[float | None] | list[list[float | None]], AfterValidator(_requested)]
        return kinds | None

    def question(self) -> Question:
        return Question("text", "Samples in brackets: [0.1, 0.2, ...], or one such list for each channel, in brackets.")

    def encoder(self, dim: int, channels: Sequence[int], *, weights: bool) -> "Encoder":
        from gauge.encoders.conv_signal import ConvSignal

        return ConvSignal((self.channels, self.length), dim, Signal.units)

    def vectors(self, values: np.ndarray) -> np.ndarray:
        """Standard features of each channel: quantiles, roughness, crossings of the median, where it ends, and the logarithm
        of the energy in bands of the spectrum."""
        signals = values.astype(np.float64)
        if not len(signals):
            signals = np.zeros((0, self.channels, self.length))
        middle = np.median(signals, 2, keepdims=True)
        features = [np.quantile(signals, (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1), 2).transpose(1, 2, 0)]
        features.append(np.abs(np.diff(signals, axis=2)).mean(2, keepdims=True))
        features.append((np.diff(signals > middle, axis=2) != 0).mean(2, keepdims=True))
        features.append(_ends(signals)[:, None, None].repeat(self.channels, 1) / self.length)
        power = np.abs(np.fft.rfft(signals - signals.mean(2, keepdims=True))) ** 2 / self.length
        edges = np.unique(np.geomspace(1, power.shape[2], 13).round().astype(int))  # 12 bands, wider and wider
        bands = np.stack([power[..., low:high].mean(2) for low, high in pairwise(edges)], 2)
        features.append(np.log10(bands + 1e-6))  # that of white noise is 1
        return np.concatenate(features, 2).reshape(len(signals), -1)

    def export_vectors(self, graph: Graph, values: str) -> str:
        raise ValueError(
            f"column {self.name!r} cannot be exported: the features of signals that trees and the linear expert read cannot "
            "be part of a graph; serve or predict with the folder that `save` wrote, or leave the column out (columns=)"
        )

    def parts(self, cell: Any, values: np.ndarray, count: int | None) -> list[Part]:
        """Stretches of time, with the least and the largest value of all channels."""
        samples = values * np.array(self.deviations)[:, None] + np.array(self.means)[:, None]
        size, end = self.length // Signal.units, int(_ends(values[None])[0])
        seconds, parts = self.step / self.rate if self.rate else 0.0, []
        for start in range(0, self.length, size):
            ends = (start, start + size)
            times = [f"{each * seconds:.3g}" if seconds else str(each * self.step) for each in ends]
            shown = samples[:, start : min(max(start, end), start + size)]
            value = f"{shown.min():.3g} to {shown.max():.3g}" if shown.size else "after its end"
            parts.append(Part("–".join(times) + " s" * bool(seconds), value))
        return parts

    def image(self, values: np.ndarray, count: int | None) -> tuple[np.ndarray, tuple[int, int]]:
        """The channels below each other, from the least to the largest value of each pixel's samples."""
        height, width = 64, 512  # of a channel, of which at most four are shown
        shown = values[:4]
        image = np.full((len(shown) * height, width, 3), 255, np.uint8)
        low, high = min(float(shown.min()), -1.0), max(float(shown.max()), 1.0)
        pixels = ((high - shown) / (high - low) * (height - 1)).round().astype(int)
        for column in range(width):
            start = column * self.length // width
            stop = max(start + 1, -(-(column + 1) * self.length // width))
            for number, channel in enumerate(pixels[:, max(0, start - 1) : stop]):
                image[number * height + channel.min() : number * height + channel.max() + 1, column] = (0, 104, 163)
        return image, (1, Signal.units)


def _ends(signals: np.ndarray) -> np.ndarray:
    """After how many values each signal ends; zeros follow."""
    known = (signals != 0).any(1)
    return np.where(known.any(1), known.shape[1] - known[:, ::-1].argmax(1), 0)


def _is_path(cell: Any) -> bool:
    return isinstance(cell, str) and cell.lower().endswith(Signal.suffixes)


def _recording(cell: Any, files: ImageFiles) -> Recording:
    """The signal of a cell; a ValueError says why there is none."""
    if isinstance(cell, bytes):
        return _from_bytes(cell)
    if not isinstance(cell, str):
        return Recording(channels_of(cell))
    if cell.lstrip().startswith("["):
        return Recording(channels_of(list_from_json(cell)))
    path = files.path(cell)
    if path is None or not path.is_file():
        raise ValueError(f"files such as {cell:.100} {files.absence(cell)}")
    if path.stat().st_size > 2**28:
        raise ValueError(f"{cell:.100} has more than {2**28:,} bytes")
    try:
        return _from_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{cell:.100} cannot be read as a signal ({error})") from error


def list_from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{text[:50]!r} is no list of numbers") from error


def channels_of(values: Any) -> np.ndarray:
    """Numbers as [channels, samples]: of two axes the shorter one has the channels."""
    try:
        samples = np.array(values, np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError("channels of different lengths, or samples that are no numbers") from error
    samples = samples[None] if samples.ndim == 1 else samples
    if samples.ndim != 2 or not samples.size:
        raise ValueError(f"an array of shape {list(samples.shape)}; give [samples] or [samples, channels]")
    samples = samples.T if samples.shape[0] > samples.shape[1] else samples
    if len(samples) > Signal.max_channels or samples.shape[1] > MAX_FILE_SAMPLES:
        raise ValueError(
            f"{len(samples)} channels of {samples.shape[1]} samples; at most {Signal.max_channels} are supported"
        )
    return np.where(np.isfinite(samples), samples, np.nan)


def _from_bytes(content: bytes) -> Recording:
    """The content of a file, whatever its name."""
    if content.startswith(WAV):
        return _from_wav(content)
    return Recording(channels_of(_from_npy(content) if content.startswith(NPY) else _from_csv(content)))


def _from_wav(content: bytes) -> Recording:
    from scipy.io import wavfile  # it takes a while to import

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # parts of the file that are not sound
            rate, samples = wavfile.read(io.BytesIO(content))
    except Exception as error:  # of a damaged file, whatever it stumbles over
        raise ValueError(f"no .wav file: {error}") from error
    if samples.dtype.kind == "u":  # of 8 bits, around 128
        samples = (samples.astype(np.float64) - 128) / 128
    elif samples.dtype.kind == "i":
        samples = samples / -float(np.iinfo(samples.dtype).min)
    return Recording(channels_of(samples), float(rate))


def _from_npy(content: bytes) -> np.ndarray:
    """Without pickles, and without memory for more than the file has."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, kind = header(stream)
        if kind.kind not in "biuf" or min(shape, default=0) < 0:
            raise ValueError(f"its values are {kind}, of shape {list(shape)}, not numbers")
        values = np.frombuffer(content, kind, math.prod(shape), stream.tell())
        return values.reshape(shape, order="F" if fortran else "C")
    except Exception as error:  # of a damaged file, whatever it stumbles over
        raise ValueError(f"no .npy file of numbers: {error}") from error


def _from_csv(content: bytes) -> np.ndarray:
    """A row for each sample, a column for each channel, with or without names in the first line."""
    try:
        text = content.decode("utf-8-sig")
        first = text.partition("\n")[0]
        separator = max(",;\t", key=first.count)
        frame = pd.read_csv(io.StringIO(text), header=None, sep=separator if separator in first else r"\s+", dtype=str)
        numbers = frame.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
        numbers = numbers[1:] if np.isnan(numbers[0]).all() else numbers
        if np.isnan(numbers).all():  # or if there are none
            raise ValueError("it holds no numbers")
    except ValueError as error:  # those of pandas, too
        raise ValueError(
            "its content is neither that of a .wav or .npy file (np.save) nor text with numbers; write it again"
        ) from error
    return numbers


def _at_rate(recording: Recording, rate: float) -> np.ndarray:
    """The samples at this rate, if both are known."""
    if not rate or not recording.rate or recording.rate == rate:
        return recording.samples
    from scipy.signal import resample_poly  # it takes a second to import

    ratio = Fraction(rate / recording.rate).limit_denominator(1000)
    if not ratio:
        raise ValueError(f"a signal at {recording.rate:g} Hz, where training had {rate:g}")
    if recording.samples.shape[1] * ratio > MAX_FILE_SAMPLES:  # before memory is taken for them
        raise ValueError(f"a signal at {recording.rate:g} Hz, too long for the {rate:g} Hz of training")
    return np.asarray(resample_poly(np.nan_to_num(recording.samples), ratio.numerator, ratio.denominator, axis=1))


def _requested(value: Any) -> Any:
    """Samples, or the bytes of a .wav or .npy file; a path or URL is not base64."""
    if not isinstance(value, str):
        channels_of(value)
        return value
    if value.lstrip().startswith("["):
        return _requested(list_from_json(value))
    try:
        content = base64.b64decode(value, validate=True)
        if not content.startswith((WAV, NPY)):
            raise ValueError("it begins otherwise")
        _from_bytes(content)
    except (binascii.Error, ValueError) as error:
        raise ValueError("is not a signal; send a list of numbers, or a .wav or .npy file in base64") from error
    return content
