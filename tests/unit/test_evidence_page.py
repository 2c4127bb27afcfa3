"""Laws of the evidence page: it counts right, escapes every text, shows no gate where there is none, and works offline."""

import re
from dataclasses import replace

import numpy as np
import pytest
from browser import needs_browser
from pages import HOSTILE, Page, contrast, luminance, visit

from gauge.reports import figures
from gauge.reports.evidence import (
    EvidencePage,
    Gain,
    GridImage,
    RowEvidence,
    Unit,
    overview,
    render,
    render_rows,
    unobserved,
)
from gauge.tabular.evidence.explanation import Explanation
from gauge.training.metrics import NORMAL_QUANTILE


def unit(column: str, gate: float | None, *, attention: float = 0.1, kind: str = "number", **changes: object) -> Unit:
    state = "missing" if gate is None else "observed"
    score = None if gate is None else 2 * gate
    made = Unit(column, kind, column, f"value of {column}", state, score, gate, attention / 2, attention)
    return replace(made, **changes)


def row_of(*units: Unit, **images: GridImage) -> RowEvidence:
    return RowEvidence("row", ("a", 0.5), ("a", 0.6), units, images)


def page_of(*rows: RowEvidence) -> Page:
    return Page(render(EvidencePage("title", "lead", rows)))


def small() -> tuple[RowEvidence, ...]:
    """Two rows of three columns: city is missing in the first, the note is missing in the second."""
    first = (
        unit("age", 0.8, attention=0.2),
        unit("city", None, attention=0.0),
        unit("note", 0.2, attention=0.05, kind="text", value="no"),
        unit("note", 0.4, attention=0.15, kind="text", value="fever"),
    )
    second = (
        unit("age", 0.6, attention=0.4),
        unit("city", 0.9, attention=0.3),
        unit("note", None, attention=0.0, kind="text"),
    )
    return (
        RowEvidence("first", ("ill", 0.6), ("well", 0.7), first),
        RowEvidence("second", ("well", 0.8), ("well", 0.9), second),
    )


def everything(text: str) -> EvidencePage:
    """A page that shows all it can, with `text` wherever a user's text goes."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    columns, gates = [f"{text} {number}" for number in range(15)], np.linspace(0.05, 0.95, 15)
    judged = {"used": -0.1, "towards": text, "trusted": 0.2, "suggestion": text}
    units = [unit(name, float(gate), value=text, **judged) for name, gate in zip(columns, gates, strict=True)]
    units[2] = replace(units[2], used=0.2)
    units[4] = unit(columns[4], None, attention=0.0, name=text, value=text, suggestion=text)
    units += [unit(f"note {text}", gate, kind="text", name=text, value=text) for gate in (0.1, 0.5, 0.9)]
    units += [unit(f"photo {text}", gate, kind="image", name=text) for gate in (0.2, 0.7)]
    images = {f"photo {text}": GridImage(pixels, (1, 2))}
    row = RowEvidence(
        text,
        (text, 0.4),
        ("other", 0.9),
        tuple(units),
        images,
        text,
        0.75,
        {},
        {text: Gain(0.2, 0.1, 0.3)},
        {text: text},
    )
    hidden = replace(row, label=None, agreement=None)
    return EvidencePage(text, text, (row, hidden), {text: text})


def lines(html: str, state: str) -> list[str]:
    """The text of every table line in that state."""
    contents = re.findall(rf'<tr class="{state}">(.*?)</tr>', html, flags=re.DOTALL)
    return [Page(f"<table>{content}</table>").text for content in contents]


def test_summary_holds_the_mean_gates_of_observed_cells():
    table = overview(small(), {})
    assert table.index.tolist() == ["city", "age", "note"]
    assert table.gate_observed.tolist() == pytest.approx([0.9, 0.7, 0.3])  # a text has its mean gate


def test_summary_shares_of_a_column_add_up_to_all_rows():
    shares = overview(small(), {})[["observed", "missing"]]
    assert shares.loc["city"].tolist() == [0.5, 0.5]
    assert shares.loc["note"].tolist() == [0.5, 0.5]
    assert shares.loc["age"].tolist() == [1.0, 0.0]


def test_summary_attention_is_summed_over_units_and_averaged_over_all_rows():
    attention = overview(small(), {}).attention
    assert {name: round(value, 9) for name, value in attention.items()} == {"city": 0.15, "age": 0.3, "note": 0.1}


def test_a_column_without_units_in_a_row_is_missing_there():
    first, second = small()
    without = replace(second, units=second.units[:2])
    assert overview((first, without), {}).equals(overview((first, second), {}))
    assert unobserved((first, without)) == unobserved((first, second))


def test_attention_is_averaged_over_the_rows_in_which_a_column_is_not_observed():
    city, note = unobserved(small())
    assert (city.column, city.rows, note.column, note.rows) == ("city", 1, "note", 1)
    assert list(city.attention) == ["age", "city", "note"]  # most attention first
    assert city.attention == pytest.approx({"age": 0.2, "city": 0.0, "note": 0.2})
    assert note.attention == pytest.approx({"age": 0.4, "city": 0.3, "note": 0.0})


def test_columns_are_ranked_by_their_gains_on_rows_held_out_which_may_be_negative():
    gains = {"age": Gain(-0.01, -0.03, 0.01), "city": Gain(0.2, 0.1, 0.3), "note": Gain(0.0, -0.02, 0.02)}
    table = overview(small(), gains)
    assert table.index.tolist() == ["city", "note", "age"]
    assert table.loc["age", ["effect", "low", "high"]].tolist() == [-0.01, -0.03, 0.01]
    text = Page(render(EvidencePage("Title", "Lead.", small(), gains=gains))).text
    assert "Sorted by gain: how far the log loss of rows held out in training fell" in text
    assert "age −0.010 100 % observed" in text
    assert "city +0.200 50 % observed" in text


def test_summary_counts_and_numbers_are_in_the_page():
    text = page_of(*small()).text
    assert "rows 2 prediction changed by the gates 1" in text
    assert "fit its row" not in text  # trust was not measured
    assert "fit their row" not in text
    trusted = replace(small()[0], units=(unit("age", 0.8, trusted=0.9), unit("city", 0.4, trusted=0.3)))
    assert "rows 2 value does not fit its row 1 prediction changed by the gates 1" in page_of(trusted, small()[1]).text
    assert "city – 50 % observed, 50 % missing –" in text
    assert "city 0.90 15.0" in text
    assert "age 0.70 30.0" in text
    assert "note not observed in 1 40.0 30.0 0.0" in text


def test_columns_are_ranked_by_the_mean_size_of_their_effects_with_an_interval():
    effects = [{"age": 0.1, "city": -0.3, "note": 0.0}, {"age": 0.1, "city": 0.1, "note": 0.0}]
    rows = tuple(replace(row, effects=each) for row, each in zip(small(), effects, strict=True))
    means = Explanation(rows).mean_effects
    table = overview(rows, means)
    assert table.index.tolist() == ["city", "age", "note"]
    assert table.effect.tolist() == pytest.approx([0.2, 0.1, 0.0])
    assert (table.low["city"], table.high["age"]) == pytest.approx(
        (0.2 - NORMAL_QUANTILE * 0.1, 0.1)
    )  # standard error 0.1
    assert "city 20.0 50 % observed" in Page(render(EvidencePage("Title", "Lead.", rows, effects=means))).text
    alone = Explanation(rows[:1]).mean_effects
    assert alone["city"] == (0.3, 0.3, 0.3)


def test_the_table_of_rows_names_the_columns_a_row_used_most_texts_too():
    first, second = small()
    page = page_of(replace(first, effects={"age": 0.004, "city": -0.3, "note": 0.4}), second)
    assert "note (+40.0), city (−30.0)" in page.text
    assert "age (" not in page.text


def test_a_text_that_speaks_for_an_answer_is_named_beside_the_cells():
    words = [unit("note", 0.9, kind="text", name=word) for word in ("fever", "cough")]
    row = row_of(unit("age", 0.5, used=0.012, value="73"), *words)
    page = page_of(replace(row, effects={"note": 0.825, "age": 0.012}))
    assert "For a : note (+82.5), age 73 (+1.2)" in page.text


def test_accuracy_is_that_of_the_rows_with_a_true_class():
    first, second = small()
    page = page_of(replace(first, label="ill"), replace(second, label="well"), second)
    assert "right, of 2 with a true class 50 %" in page.text
    assert ["data-wrong" in line for line in page.all("tr") if "data-row" in line] == [True, False, False]


def doubted(trusted: float = 0.1) -> RowEvidence:
    units = (
        unit("age", 0.6, value="7", used=0.3, trusted=trusted, suggestion="50 to 60"),
        unit("city", 0.1, used=-0.2),
    )
    return replace(row_of(*units, unit("dose", None, suggestion="2 to 3")), helpful={"dose": Gain(0.18, 0.1, 0.26)})


def test_use_and_trust_are_two_things_and_a_value_that_does_not_fit_is_named():
    page = page_of(doubted())
    assert "For a : age 7 (+30.0)" in page.text
    assert "Against it: city value of city (−20.0)" in page.text
    assert "This value does not fit the rest of the row: age 7 , trusted 10 %; the rest suggests 50 to 60" in page.text
    assert "value does not fit its row 1" in page.text
    assert "does not fit the rest" not in page_of(doubted(trusted=0.9)).text


def test_a_missing_value_says_what_the_rest_suggests_and_how_much_it_would_help():
    text = Page(render_rows([doubted()])).text
    gain = "knowing it is expected to lower the log loss by 0.180 (95 % interval 0.100 to 0.260)"
    assert f"Would help most: dose is missing; {gain}" in text
    assert "dose missing the rest suggests 2 to 3" in text


def test_effects_of_values_point_to_their_side():
    html = render_rows([doubted()])
    bars = re.findall(r'<td class="(used[\w ]*)" style="--w:([\d.]+)%">([^<]+)<', html)
    assert bars == [("used", "50.0", "+30.0"), ("used against", "33.3", "−20.0")]


def test_ids_are_in_the_table_of_rows_and_with_each_row():
    page = page_of(replace(doubted(), ids={"patient": "P7"}))
    assert page.text.count("P7") == 2
    assert {"#row-1", "#glance"} <= {link["href"] for link in page.all("a")}


def test_no_table_of_unobserved_columns_where_all_are_observed():
    row = row_of(unit("age", 0.5))
    assert unobserved((row,)) == []
    assert 'class="heat"' not in page_of(row).html


def test_the_table_of_unobserved_columns_is_capped_and_says_so():
    row = row_of(*(unit(f"c{at}", 0.5, attention=at / 1000) for at in range(25)))
    gaps = row_of(*(unit(f"c{at}", None, attention=0.0) for at in range(25)))
    table = unobserved((row, gaps))
    assert len(table) == 20
    assert list(table[0].attention) == [f"c{at}" for at in range(24, 4, -1)]
    assert "the 20 columns with most attention out of 25" in page_of(row, gaps).text


def test_a_note_with_html_is_escaped():
    page, plain = Page(render(everything(HOSTILE))), Page(render(everything("ordinary")))
    assert page.skeleton == plain.skeleton  # no element and no attribute more
    assert "".join(page.words).count(HOSTILE) == "".join(plain.words).count("ordinary") > 60
    attributes = [item for _, attributes in page.elements for item in attributes.items()]
    assert {name for name, value in attributes if HOSTILE in (value or "")} == {"alt", "aria-label", "title"}
    assert page.all("script") == [{}]  # ours


def test_a_fragment_with_html_is_escaped():
    fragments = [Page(render_rows(everything(text).rows)) for text in (HOSTILE, "ordinary")]
    assert fragments[0].skeleton == fragments[1].skeleton


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
    assert links == {"#row-1", "#row-2", "#glance", "#columns", "#reading", "#unobserved", "#rows"}
    assert {link[1:] for link in links} <= set(page.ids)


def test_a_missing_unit_has_no_gate():
    (line,) = lines(render_rows([row_of(unit("age", 0.6), unit("city", None))]), "missing")
    assert line.split() == ["city", "missing"]


def test_a_missing_text_says_so_and_shows_no_number():
    assert Page(render_rows(small()[1:])).text.endswith("note missing missing: hidden from the model")


def test_a_part_without_a_gate_is_not_drawn_as_gate_zero():
    units = (unit("photo", 0.7, kind="image"), unit("photo", None, kind="image"))
    html = render_rows([row_of(*units, photo=GridImage(np.zeros((4, 8, 3), np.uint8), (1, 2)))])
    assert "Gates of photo by unit, from top left: 0.70, missing" in html
    assert re.findall(r"<b>([^<]+)</b></span>", html) == ["0.70", "–"]


def test_columns_are_sorted_by_effect_and_missing_ones_come_last():
    used = {"low": 0.1, "high": -0.9, "middle": 0.5}
    units = [unit(name, 0.5, used=value) for name, value in used.items()]
    units.insert(1, unit("none", None))
    names = re.findall(r'<th scope="row" class="name">(\w+)', render_rows([row_of(*units)]))
    assert names == ["high", "middle", "low", "none"]


def test_a_long_table_folds_all_but_its_first_lines():
    page = page_of(row_of(*(unit(f"c{at}", at / 200) for at in range(200))))
    rows = [index for index, element in enumerate(page.elements) if element[1].get("scope") == "row"]
    folded = ["details" in page.inside[index] for index in rows]
    twice = [False] * 12 + [True] * 188 + [True] * 200  # a table, then gates and attention
    assert folded == twice * 2  # of the summary and of the row
    assert "188 more columns" in page.text


def test_a_short_table_folds_only_gates_and_attention():
    assert len(page_of(row_of(*(unit(f"c{at}", at / 12) for at in range(12)))).all("details")) == 2


def test_every_word_is_shaded_by_its_gate():
    html = render_rows(small()[:1])
    shades = re.findall(r'title="gate ([\d.]+)" style="--gate: (#\w+); --share: (\d+)%">(\w+)<', html)
    assert shades == [
        ("0.20", figures.gate_colour(0.2)[0], "20", "no"),
        ("0.40", figures.gate_colour(0.4)[0], "40", "fever"),
    ]


def test_words_are_readable_on_every_shade_in_light_and_dark():
    html = render_rows(small()[:1])
    grounds, inks = (re.findall(rf"--{name}: (#\w+)", html) for name in ("ground", "full-ink"))

    def mixed(colour: str, ground: str, share: float) -> str:
        pairs = [(int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5)]
        return "#" + "".join(f"{round(share * first + (1 - share) * second):02x}" for first, second in pairs)

    assert len(grounds) == len(inks) == 2
    for ground, ink in zip(grounds, inks, strict=True):
        for gate in np.linspace(0, 1, 1001):
            shade = mixed(figures.gate_colour(gate)[0], ground, gate)
            assert contrast(luminance(shade), luminance("#000000" if gate > 0.69 else ink)) >= 4.5


def test_outcomes_are_judged_only_where_the_true_class_is_known():
    known, unknown = (render_rows((replace(small()[0], label=label),)) for label in ("well", None))
    assert re.findall(r'class="outcome">(\w+)', known) == ["wrong", "right"]
    assert "True class well" in Page(known).text
    assert 'class="outcome"' not in unknown
    assert "True class" not in unknown


def test_effects_and_agreement_are_shown_only_where_present():
    row = small()[0]
    measured = replace(row, units=tuple(replace(unit, used=-0.25) for unit in row.units), agreement=0.875)
    with_effects, without = (Page(render_rows((each,))).text for each in (measured, row))
    assert "−25.0" in with_effects
    assert "rank correlation of 0.88" in with_effects
    assert "−" not in without
    assert "rank correlation" not in without


def test_the_page_says_that_a_low_gate_does_not_mean_wrong():
    for page in (page_of(*small()), Page(render_rows(small()))):
        assert "hardly depends on the unit , not that the unit is wrong" in page.text


def test_a_fragment_is_not_a_document():
    page = Page(render_rows(everything("ordinary").rows))
    assert not {"html", "head", "body", "title", "meta", "main"} & {tag for tag, _ in page.elements}
    assert not page.ids  # a notebook may show it twice


def test_the_styles_of_a_fragment_end_with_it():
    (style,) = re.findall(r"<style>\s*(.*?)\s*</style>", render_rows(small()), flags=re.DOTALL)
    depths = np.cumsum([(letter == "{") - (letter == "}") for letter in style])
    start = style.index("{")
    assert style[:start].strip() == ".gauge-report"
    assert depths[start:-1].min() == 1
    assert depths[-1] == 0


def test_same_page_is_the_same_text():
    assert render(everything("ordinary")) == render(everything("ordinary"))


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


@needs_browser
def test_the_browser_would_have_reported_requests_and_errors(tmp_path):
    (tmp_path / "page.html").write_text("<img src='http://evil.test/x.png'><script>nothing()</script>", "utf-8")
    _, requests, messages = visit(tmp_path / "page.html", tmp_path)
    assert set(requests) == {"http://evil.test/x.png"}
    assert any("nothing is not defined" in message for message in messages)


WRONG = [
    (lambda: unit("age", 0.5, attention=float("nan")), "attention_before of unit 'age' is nan; give a finite value"),
    (lambda: EvidencePage("Page", "l", ()), "the evidence page 'Page' has no rows; give at least one"),
    (lambda: row_of(), "row 'row' has no units; give at least one"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_evidence_that_cannot_be_shown_is_an_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
