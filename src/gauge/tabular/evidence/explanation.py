"""Explanation: which evidence was used and how far it is trusted, as a DataFrame, a page, a figure, and in a notebook."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gauge.data.files import write_text
from gauge.reports import figures
from gauge.reports.evidence import EvidencePage, Gain, RowEvidence, render, render_rows
from gauge.tabular.evidence.effects import mean_interval
from gauge.tabular.table.inputs import check_kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Row "


@dataclass(frozen=True, repr=False)
class Explanation:
    """The evidence of some rows; `explanation[3]` and `explanation[:5]` select one and five of them.

    Parameters
    ----------
    rows
        The evidence of each row.
    facts
        How the model was trained.
    gains
        What each column was worth on rows held out in training, if that was measured.
    part
        What a column is called.

    Examples
    --------
    >>> from gauge.reports.evidence import Unit
    >>> unit = Unit("age", "number", "age", "31", "observed", used=0.2, trusted=0.97)
    >>> explanation = Explanation((RowEvidence("Row 0", ("ill", 0.9), (unit,), effects={"age": 0.2}),))
    >>> explanation
    Explanation of 1 rows; to_frame(), to_html(path), plot(), [row]
      Row 0: ill (90 %); age +20
    """

    rows: tuple[RowEvidence, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    gains: Mapping[str, Gain] = field(default_factory=dict)
    part: str = "column"

    def __repr__(self) -> str:
        shown = 5  # rows in a terminal; a page shows all
        rows = [f"  {line['row']}: {line['prediction']}; {line['most used']}" for line in self._summary(shown)]
        more = [f"  ... and {len(self) - shown} more"] if len(self) > shown else []
        return "\n".join([f"Explanation of {len(self)} rows; to_frame(), to_html(path), plot(), [row]", *rows, *more])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int | slice) -> "Explanation":
        return replace(self, rows=self.rows[index] if isinstance(index, slice) else (self.rows[index],))

    def __iter__(self) -> Iterator["Explanation"]:
        return (self[index] for index in range(len(self)))

    def to_frame(self) -> pd.DataFrame:
        """Return one line for every unit of every row: how much it was `used` (its signed effect on the probability of the
        prediction) and how far it is `trusted` (the probability that it is right, in words as `fit`) are two things.

        Returns
        -------
        DataFrame
            With row, label, prediction, column and value of each unit.

        Examples
        --------
        >>> explanation.to_frame()[["column", "value", "used", "fit"]].values.tolist()
        [['age', '31', 0.2, 'fits']]
        """
        names = ("row", "label", "prediction", "probability")
        lines = []
        for row in self.rows:
            own = dict(zip(names, (row.title.removeprefix(TITLE), row.label, *row.prediction), strict=True))
            for each in row.units:
                unit = asdict(each) | {"fit": each.fit}
                check_kept(row.ids, own | unit)
                lines.append(own | dict(row.ids) | unit)
        return pd.DataFrame(lines)

    @property
    def effects(self) -> pd.DataFrame:
        """The effect of every column on the probability of the predicted class, a line for each row: positive where it
        speaks for the prediction, zero where it is missing."""
        return pd.DataFrame([row.effects for row in self.rows], [row.title.removeprefix(TITLE) for row in self.rows])

    @property
    def mean_effects(self) -> dict[str, Gain]:
        """The mean size of the effect of every column, with the ends of its 95 % interval."""
        sizes = self.effects.abs()
        values = sizes.to_numpy(float)
        mean, low, high = mean_interval(values) if len(self) > 1 else (values.sum(0),) * 3
        return {name: Gain(*each) for name, *each in zip(sizes.columns, mean, low.clip(0), high, strict=True)}

    def to_html(self, path: str | Path) -> None:
        """Write one file that works offline: a summary of all rows, then every row.

        Parameters
        ----------
        path
            Of the page.

        Examples
        --------
        >>> explanation.to_html("evidence.html")
        """
        trusts = any(unit.trusted is not None for row in self.rows for unit in row.units)
        trusted = ", and how far each value is trusted to be right" if trusts else ""
        lead = f"The prediction of {self.facts.get('Predicts', 'the label')}: how much each {self.part} was used"
        title = "Which evidence was used, and how far is it trusted?" if trusts else "Which evidence was used?"
        page = EvidencePage(title, f"{lead}{trusted}.", self.rows, self.facts, self.gains, self.mean_effects, self.part)
        write_text(Path(path), render(page))

    def plot(self) -> "Figure":
        """Return the effects of the columns as a figure: signed for a single row, their mean size for several.

        Returns
        -------
        matplotlib.figure.Figure
            Which a notebook shows, and `savefig` writes.

        Examples
        --------
        >>> explanation.plot().axes[0].get_xlabel()
        'effect on the prediction, points'
        """
        effects = self.effects
        if len(self) == 1:
            title = f"{self.rows[0].title}: {_prediction(self.rows[0])}"
            return figures.effects_figure(effects.iloc[0], title=title, label="effect on the prediction, points")
        sizes = pd.DataFrame(self.mean_effects, ["mean", "low", "high"]).T
        label = "mean size of the effect, points"
        return figures.effects_figure(
            sizes["mean"], sizes["high"] - sizes["mean"], title=f"{len(self)} rows", label=label
        )

    def _repr_html_(self) -> str:
        shown = 20  # rows in a notebook; with all their evidence if there are at most two
        if len(self) <= 2:
            return render_rows(self.rows, self.part)
        table = pd.DataFrame(self._summary(shown)).to_html(index=False, border=0)
        return (
            f"{table}<p>{min(len(self), shown)} of {len(self)} rows; explanation[0] shows one with all its evidence</p>"
        )

    def _summary(self, count: int) -> list[dict[str, str]]:
        """Return the predictions of the first rows, the columns they used most, in points, and the values that do not
        fit."""
        lines = []
        for row in self.rows[:count]:
            used = sorted(row.effects.items(), key=lambda item: -abs(item[1]))[:3]
            named = ", ".join(f"{column} {100 * effect:+.0f}" for column, effect in used if effect) or "no evidence"
            doubtful = ", ".join(
                f"{unit.column if unit.name == unit.column else f'{unit.column}: {unit.name}'} {unit.trusted:.2f}"
                for unit in row.doubtful[:2]
            )
            line = {"row": row.title, "prediction": _prediction(row), "most used": named}
            lines.append(
                line | ({"does not fit": doubtful} if any(each.doubtful for each in self.rows[:count]) else {})
            )
        return lines


def _prediction(row: RowEvidence) -> str:
    return f"{row.prediction[0]} ({100 * row.prediction[1]:.0f} %)"
