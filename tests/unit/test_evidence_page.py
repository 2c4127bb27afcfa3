"""Laws of the evidence page: it counts right, escapes every text, shows gates only where there are any, works offline."""

import re
from dataclasses import replace

import numpy as np
import pytest
from browser import needs_browser, visit
from pages import HOSTILE, Page

from gauge.reports.evidence import (
    Advised,
    EvidencePage,
    Gain,
    GatedUnit,
    GridImage,
    RowEvidence,
    Unit,
    overview,
    render,
    render_rows,
)
from gauge.tabular.evidence.explanation import Explanation


def unit(column: str, gate: float | None, *, attention: float = 0.1, kind: str = "number", **changes: object) -> Unit:
    named = (column, kind, column, f"value of {column}")
    if gate is None:
        return replace(Unit(*named, "missing"), **changes)
    seen = {"gate": gate, "attention_before": attention / 2, "attention_after": attention}
    return replace(GatedUnit(*named, "observed", 2 * gate, **seen), **changes)


def row_of(*units: Unit, **images: GridImage) -> RowEvidence:
    return RowEvidence("row", ("a", 0.6), units, images)


def page_of(*rows: RowEvidence) -> Page:
    return Page(render(EvidencePage("title", "lead", rows)))


def small() -> tuple[RowEvidence, ...]:
    """Two rows of three columns: city is missing in the first, the note is missing in the second."""
    first = (
        unit("age", 0.8, attention=0.2),
        unit("city", None),
        unit("note", 0.2, attention=0.05, kind="text", value="no"),
        unit("note", 0.4, attention=0.15, kind="text", value="fever"),
    )
    second = (
        unit("age", 0.6, attention=0.4),
        unit("city", 0.9, attention=0.3),
        unit("note", None, kind="text"),
    )
    return (
        RowEvidence("first", ("well", 0.7), first, ungated=("ill", 0.6)),
        RowEvidence("second", ("well", 0.9), second, ungated=("well", 0.8)),
    )


def everything(text: str) -> EvidencePage:
    """A page that shows all it can, with `text` wherever a user's text goes."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    columns, gates = [f"{text} {number}" for number in range(15)], np.linspace(0.05, 0.95, 15)
    judged = {"used": -0.1, "towards": text, "trusted": 0.2, "suggestion": text}
    units = [unit(name, float(gate), value=text, **judged) for name, gate in zip(columns, gates, strict=True)]
    units[2] = replace(units[2], used=0.2)
    units[4] = unit(columns[4], None, name=text, value=text, suggestion=text)
    units += [unit(f"note {text}", gate, kind="text", name=text, value=text) for gate in (0.1, 0.5, 0.9)]
    units += [unit(f"photo {text}", gate, kind="image", name=text) for gate in (0.2, 0.7)]
    images = {f"photo {text}": GridImage(pixels, (1, 2))}
    helpful = {text: Advised(0.2, 0.1, 0.3, 0.5, 0.6)}
    row = RowEvidence(text, ("other", 0.9), tuple(units), images, text, {}, helpful, {text: text}, ungated=(text, 0.4))
    hidden = replace(row, label=None, votes={text: (text, 0.4)}, subsets={text: 0.9})
    return EvidencePage(text, text, (row, hidden), {text: text})


def lines(html: str, state: str) -> list[str]:
    """The text of every table line in that state."""
    contents = re.findall(rf'<tr class="{state}">(.*?)</tr>', html, flags=re.DOTALL)
    return [Page(f"<table>{content}</table>").text for content in contents]


def test_columns_are_ranked_by_their_gains_on_rows_held_out_which_may_be_negative():
    gains = {"age": Gain(-0.01, -0.03, 0.01), "city": Gain(0.2, 0.1, 0.3), "note": Gain(0.0, -0.02, 0.02)}
    table = overview(small(), gains)
    assert table.index.tolist() == ["city", "note", "age"]
    assert table.loc["age", ["effect", "low", "high"]].tolist() == [-0.01, -0.03, 0.01]
    text = Page(render(EvidencePage("Title", "Lead.", small(), gains=gains))).text
    assert "Sorted by gain: how far the log loss of rows held out in training fell" in text
    assert "age −0.010 100 % observed" in text
    assert "city +0.200 50 % observed" in text


def doubted(trusted: float = 0.1) -> RowEvidence:
    units = unit("age", 0.6, value="7", used=0.3, trusted=trusted, suggestion="50 to 60"), unit("city", 0.1, used=-0.2)
    return replace(
        row_of(*units, unit("dose", None, suggestion="2 to 3")), helpful={"dose": Advised(0.18, 0.1, 0.26, 0.72, 0.75)}
    )


def test_use_and_trust_are_two_things_and_a_value_that_does_not_fit_is_named():
    page = page_of(doubted())
    assert "For a : age 7 (+30.0)" in page.text
    assert "Against it: city value of city (−20.0)" in page.text
    assert "This value does not fit the rest of the row: age 7 , trusted 10 %; the rest suggests 50 to 60" in page.text
    assert "value does not fit its row 1" in page.text
    for trusted, word in ((0.9, "fits"), (0.7, "unusual")):
        text = page_of(doubted(trusted=trusted)).text
        assert f"{100 * trusted:.0f} {word}" in text
        assert "does not fit the rest" not in text


def test_a_missing_value_says_what_the_rest_suggests_and_how_much_it_would_help():
    text = Page(render_rows([doubted()])).text
    gain = "knowing it may turn 72 right predictions in 100 into about 75 (log loss −0.180)"
    assert f"Would help most: dose is missing; {gain}" in text
    assert "dose missing the rest suggests 2 to 3" in text


def test_a_note_with_html_is_escaped():
    page, plain = Page(render(everything(HOSTILE))), Page(render(everything("ordinary")))
    assert page.skeleton == plain.skeleton  # no element and no attribute more
    assert "".join(page.words).count(HOSTILE) == "".join(plain.words).count("ordinary") > 60
    attributes = [item for _, attributes in page.elements for item in attributes.items()]
    assert {name for name, value in attributes if HOSTILE in (value or "")} == {"alt", "aria-label"}
    assert page.all("script") == [{}]  # ours


@pytest.mark.parametrize("html", [render(everything("ordinary")), render_rows(everything("ordinary").rows)])
def test_nothing_is_loaded_from_elsewhere_and_every_variable_is_defined(html):
    addresses = Page(html).addresses
    assert any(address.startswith("data:image/png") for address in addresses)
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in addresses)
    html = re.sub(r"base64,[\w+/=]+|<script>// |sha256-[\w+/=]+", "", html)
    assert "//" not in html
    assert not re.search(r"@import|url\(|<script|<link|<iframe| on\w+=", html)
    assert set(re.findall(r"var\((--[\w-]+)\)", html)) <= set(re.findall(r"(--[\w-]+):", html))


def test_every_link_has_its_target_and_no_id_is_used_twice():
    page = Page(render(everything("ordinary")))
    links = {link["href"] for link in page.all("a")}
    assert len(page.ids) == len(set(page.ids))
    assert links == {"#row-1", "#row-2", "#glance", "#columns", "#reading", "#rows"}
    assert {link[1:] for link in links} <= set(page.ids)


def test_a_missing_unit_has_no_numbers():
    (line,) = lines(render_rows([row_of(unit("age", 0.6), unit("city", None))]), "missing")
    assert line.split() == ["city", "missing"]


def test_words_and_parts_without_gates_are_coloured_by_their_share_of_the_largest_score():
    words = [Unit("note", "text", word, word, "observed", score) for word, score in (("no", 1.0), ("fever", 4.0))]
    parts = [Unit("photo", "image", f"part {number}", "", "observed", 2.0 * number) for number in range(2)]
    page = Page(render_rows([row_of(*words, *parts, photo=GridImage(np.zeros((8, 16, 3), np.uint8), (1, 2)))]))
    assert [span["title"][-4:] for span in page.all("span") if "title" in span] == ["0.25", "1.00"]
    assert "Scores of photo by unit, from top left: 0.00, 0.50" in page.html
    assert "Word Score fever 4.00 no 1.00" in page.text
    assert not re.search("[Gg]ate|Attention", page.text)


def test_outcomes_are_judged_only_where_the_true_class_is_known():
    known, unknown = (render_rows((replace(small()[0], label=label),)) for label in ("well", None))
    assert re.findall(r'class="outcome">(\w+)', known) == ["wrong", "right"]
    assert "True class well" in Page(known).text
    assert 'class="outcome"' not in unknown
    assert "True class" not in unknown


@needs_browser
def test_a_browser_finds_no_error_and_requests_nothing(tmp_path):
    (tmp_path / "page.html").write_text(render(everything(HOSTILE)), "utf-8")
    loaded, requests, messages = visit(tmp_path / "page.html", tmp_path)
    assert Page(loaded).skeleton.count(("article", ("class", "id"))) == 2
    assert "2 of 2 rows" in Page(loaded).text  # its own script ran, and nothing else
    assert requests == messages == []


@needs_browser
def test_a_script_that_is_not_its_own_does_not_run(tmp_path):
    html = render(everything("ordinary")).replace("<main>", "<main><script>document.title = 'evil'</script>")
    (tmp_path / "page.html").write_text(html, "utf-8")
    loaded, _, messages = visit(tmp_path / "page.html", tmp_path)
    assert "<title>ordinary</title>" in loaded
    assert any("Content Security Policy" in message for message in messages)


WRONG = [
    (lambda: unit("age", 0.5, attention=float("nan")), "attention_before of unit 'age' is nan; give a finite value"),
    (lambda: EvidencePage("Page", "l", ()), "the evidence page 'Page' has no rows; give at least one"),
    (lambda: Explanation(()).to_html("page.html"), "has no rows; give at least one"),
    (lambda: row_of(), "row 'row' has no units; give at least one"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_evidence_that_cannot_be_shown_is_an_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
