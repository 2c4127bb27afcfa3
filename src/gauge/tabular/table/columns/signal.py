"""Signals of any length with one or several channels: arrays, or .wav, .npy and .csv files by their paths or bytes."""

import base64
import binascii
import io
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from pydantic import AfterValidator

from gauge.tabular.table.cells import MIN_SAMPLES, absent_files, as_words, has_category_type, missing, paths_or_bytes
from gauge.tabular.table.columns import Content, Guess, ImageFiles, Part, Question, ReadOptions
from gauge.tabular.table.guard import Limits, note

if TYPE_CHECKING:
    from gauge.types import Encoder

__all__ = ["Signal"]

WAV, NPY = b"RIFF", b"\x93NUMPY"  # how the files begin
MAX_FILE_SAMPLES = 2**26
PRINTED = re.compile(r"^\s*\[([^,\[\]]+)\]\s*$")  # numbers as NumPy prints them
Numbers = tuple[float, ...]


class Recording(NamedTuple):
    """Samples, and how many of them there are in a second; 0 if that is not known."""

    samples: np.ndarray
    rate: float = 0.0


@dataclass(frozen=True)
class Signal(Content):
    """Read as features of each channel. `length` is about the largest number of samples in training, `rate` that in a
    second, 0 if not known; files with another rate are resampled. `means` and `deviations` are those of the channels in
    training, `feature_means` and `feature_deviations` those of the features, `sizes` how large these were in all."""

    name: str
    channels: int
    length: int
    rate: float
    means: Numbers
    deviations: Numbers
    feature_means: Numbers
    feature_deviations: Numbers
    sizes: Limits | None = None
    suffixes: ClassVar[tuple[str, ...]] = (".wav", ".npy", ".csv")
    max_channels: ClassVar[int] = 64
    quantiles: ClassVar[Numbers] = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
    kind: ClassVar[str] = "signal"
    order: ClassVar[int] = 4
    precedence: ClassVar[int] = 0
    read_by_trees: ClassVar[bool] = True
    by_components: ClassVar[bool] = False
    display: ClassVar[Any] = "number"

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
    def from_column(cls, column: pd.Series, options: ReadOptions = ReadOptions()) -> "Signal":
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
        length = max(16, round(float(np.quantile([samples.shape[1] for samples in alike], 0.95))))
        means, deviations = scales(np.concatenate(alike, 1).T)
        features = np.stack([_features(_filled(samples, means, deviations), length) for samples in alike])
        sizes = Limits.fit(sizes_of(scaled(features, *scales(features))), ratios=False)
        return cls(str(column.name), channels, length, float(rate), means, deviations, *scales(features), sizes)

    @classmethod
    def inspect(cls, values: pd.Series, options: ReadOptions = ReadOptions()) -> tuple[np.ndarray, list[str]]:
        absent = np.array([_is_path(cell) and bool(options.files.absence(cell)) for cell in values], bool)
        return absent, absent_files(values[absent], cls.kind)

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        return paths_or_bytes(column)

    def encode(
        self, column: pd.Series, files: ImageFiles = ImageFiles(), *, training: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        values = np.zeros((len(column), len(self.feature_means)), np.float32)
        observed, broken = np.zeros(len(column), bool), dict[int, str]()
        cells, rows = column.tolist(), np.flatnonzero(~missing(column)).tolist()
        absent: dict[str, list[int]] = {}
        for row in rows:
            if _is_path(cells[row]) and (reason := files.absence(cells[row])):
                absent.setdefault(reason, []).append(row)
                continue
            try:
                values[row] = self._read(_recording(cells[row], files))
                observed[row] = True
            except (ValueError, OSError) as error:
                broken[row] = str(error)
        self.report_absent_files(column, absent)
        if broken:
            known = len(rows) - sum(map(len, absent.values()))
            self.report_unreadable(column, sorted(broken), broken[min(broken)], known if training else None)
        note_sizes(self.sizes, column, values, observed)
        return values, observed

    def _read(self, recording: Recording) -> np.ndarray:
        """The features, with mean 0 and deviation 1 in training."""
        if len(recording.samples) != self.channels:
            raise ValueError(f"a signal with {len(recording.samples)} channels, where training had {self.channels}")
        samples = _filled(_at_rate(recording, self.rate), self.means, self.deviations)
        return scaled(_features(samples, self.length), self.feature_means, self.feature_deviations)

    @property
    def note(self) -> str:
        channels = "1 channel" if self.channels == 1 else f"{self.channels} channels"
        rate = f" at {self.rate:g} Hz" if self.rate else ""
        return f"signals with {channels}{rate} of about {self.length} samples"

    @property
    def saved_problem(self) -> str:
        usable = (
            1 <= self.channels <= Signal.max_channels
            and len(self.means) == len(self.deviations) == self.channels
            and 16 <= self.length <= MAX_FILE_SAMPLES
            and len(self.feature_means) == len(self.feature_deviations) == self.channels * _count(self.length) + 1
            and all(map(math.isfinite, (self.rate, *self.means, *self.feature_means)))
            and all(0 < each < math.inf for each in (*self.deviations, *self.feature_deviations))
            and self.rate >= 0
        )
        return "" if usable else f"its signals have {self.channels} channels of {self.length} samples, or no scale"

    def request_type(self, *, max_pixels: int) -> Any:
        kinds = Annotated[str | list[float | None] | list[list[float | None]], AfterValidator(_requested)]
        return kinds | None

    def question(self) -> Question:
        return Question("text", "Samples in brackets: [0.1, 0.2, ...], or one such list for each channel, in brackets.")

    def encoder(self, dim: int, channels: Sequence[int], *, weights: bool) -> "Encoder":
        from gauge.encoders.mlp import Mlp

        return Mlp((len(self.feature_means),), dim)

    def parts(self, cell: Any, values: np.ndarray, count: int | None) -> list[Part]:
        """How many samples, and the least and the largest of all channels."""
        features = values * np.array(self.feature_deviations) + np.array(self.feature_means)
        ends = features[1:].reshape(self.channels, -1)[:, [0, len(Signal.quantiles) - 1]]
        samples = ends * np.array(self.deviations)[:, None] + np.array(self.means)[:, None]
        text = f"{features[0] * self.length:.0f} samples, {samples.min():.3g} to {samples.max():.3g}"
        return [Part(self.name, text)]


def sizes_of(values: np.ndarray) -> np.ndarray:
    """The logarithm of the size of each encoded row, which other units, or a default in the place of values, change."""
    return np.log(np.linalg.norm(values.astype(np.float64), axis=1) + 1e-9)


def note_sizes(limits: Limits | None, column: pd.Series, values: np.ndarray, observed: np.ndarray) -> None:
    """Note which encoded rows are larger or smaller than those of training, unless these were too few."""
    if limits is not None and len(rows := np.flatnonzero(observed & limits.beyond(sizes_of(values)))):
        share = 0.0 if limits.certain(sizes_of(values[rows])) else limits.once
        note(column, rows, "is larger or smaller than all of training", share=share)


def scales(rows: np.ndarray) -> tuple[Numbers, Numbers]:
    """The mean and the deviation of each column, 1 where that is zero but for rounding."""
    means, deviations = np.nan_to_num(np.nanmean(rows, 0)), np.nan_to_num(np.nanstd(rows, 0))
    varies = deviations > 1e-9 * np.nan_to_num(np.abs(rows)).max(0)
    return tuple(means.tolist()), tuple(np.where(varies, deviations, 1.0).tolist())


def scaled(values: np.ndarray, means: Numbers, deviations: Numbers) -> np.ndarray:
    """Values with mean 0 and deviation 1 in training, 0 where they are missing."""
    return np.nan_to_num((values - np.array(means)) / np.array(deviations)).clip(-20, 20)


def _filled(samples: np.ndarray, means: Numbers, deviations: Numbers) -> np.ndarray:
    """Channels with mean 0 and deviation 1 in training."""
    if np.isnan(samples).mean() > 0.5:
        raise ValueError("a signal whose samples are mostly missing")
    return scaled(samples.T, means, deviations).T


def _bands(length: int) -> np.ndarray:
    """The ends of about twelve bands of frequencies, wider and wider, in oscillations of a signal of this length."""
    return np.unique(np.geomspace(1, length // 2, 13).round())


def _count(length: int) -> int:
    """The number of features of a channel."""
    return len(Signal.quantiles) + 2 + 6 + len(_bands(length)) - 1


def _features(channels: np.ndarray, length: int) -> np.ndarray:
    """How long a signal is, and of each channel: quantiles, roughness, crossings of the median, the rate of its peaks and of
    its valleys with the mean and the variation of the intervals between them, and the logarithm of the energy in bands of
    the spectrum."""
    edges, count = _bands(length), channels.shape[1]
    features = [np.array([count / length])]
    for signal in channels:
        quantiles = np.quantile(signal, Signal.quantiles)
        change = np.diff(signal) if count > 1 else np.zeros(1)
        crossings = (np.diff(signal > quantiles[3]) != 0).sum() / count
        power = np.abs(np.fft.rfft(signal - signal.mean(), max(count, length))) ** 2 / count
        band = np.searchsorted(edges, np.arange(len(power)) * length / max(count, length), side="right")
        energy = np.bincount(band, power, len(edges) + 1) / np.bincount(band, minlength=len(edges) + 1).clip(1)
        features += [quantiles, np.array([np.abs(change).mean(), crossings, *_intervals(signal), *_intervals(-signal)])]
        features.append(np.log10(energy[1 : len(edges)] + 1e-6))  # that of white noise is 1
    return np.concatenate(features)


def _intervals(signal: np.ndarray) -> list[float]:
    """How often a signal rises from its median to halfway between that and its peaks, the mean interval between such rises
    as a share of the signal, and how much intervals vary."""
    middle, peak = np.quantile(signal, (0.5, 0.995))
    side = np.where(signal >= (middle + peak) / 2, 1, np.where(signal <= middle, -1, 0))
    known = np.flatnonzero(side)
    rises = known[1:][np.diff(side[known]) > 0]
    gaps = np.diff(rises)
    if len(gaps) < 2:
        return [len(rises) / len(signal), 1.0, 0.0]
    return [len(rises) / len(signal), float(gaps.mean() / len(signal)), float(gaps.std() / gaps.mean())]


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
        try:
            return [float(number) for number in PRINTED.findall(text)[0].split()]
        except (ValueError, IndexError):
            raise ValueError(f"{text[:50]!r} is no list of numbers") from error


def channels_of(values: Any) -> np.ndarray:
    """Numbers as [channels, samples]: of two axes the shorter one has the channels."""
    try:
        samples = np.asarray(values, np.float64)
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
