"""Laws of the report: one page that works offline, shows what it is given, and refuses what does not fit together."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from pages import Page, contrast, luminance

from gauge.reports import figures
from gauge.reports.page import Curves, ModalityEvidence, Report, Row, SampleEvidence, render_report

HOSTILE = "</title><script>alert('$x')</script>"


def modality(
    name: str = "view", *, observed: bool = True, grid: tuple[int, int] = (2, 3), seed: int = 0
) -> ModalityEvidence:
    draw, units = np.random.default_rng(seed), grid[0] * grid[1]
    image = draw.integers(0, 256, (6, 9, 3), dtype=np.uint8)
    truth = None if observed else 255 - image
    scores, gates, before, after = draw.uniform(0.01, 0.99, (4, units))
    return ModalityEvidence(name, observed, image, truth, grid, scores, gates, before / units, after / units)


def example(text: str = "plain") -> Report:
    point = (90.0, 88.0, 92.0)
    sample = SampleEvidence(
        text, text, (text, 0.4), ("seven", 0.9), (modality(text), modality("b", observed=False, seed=1))
    )
    return Report(
        title=text,
        lead=text,
        columns=(text,),
        rows=(Row(text, text, (point,), featured=True), Row("baseline", "ungated", ((80.0, 70.0, 85.0),))),
        curves=Curves(text, (0.0, 0.5), {text: (point, point)}),
        samples=(sample,),
        verdict=(text,),
        facts={text: text},
    )


def page(report: Report) -> Page:
    return Page(render_report(report))


def test_report_makes_no_external_request():
    written = page(example())
    assert any(address.startswith("data:image/png") for address in written.addresses)
    assert all(address.startswith(("data:", "#")) for address in written.addresses)
    assert "//" not in re.sub(r"base64,[\w+/=]+", "", written.html)
    assert "@import" not in written.html
    assert "default-src 'none'" in written.all("meta")[3]["content"]


def test_user_text_is_escaped():
    written = page(example(HOSTILE))
    assert not written.all("script")
    assert HOSTILE not in written.html
    assert "".join(written.words).count(HOSTILE) >= 10  # title twice, lead, table, chart, verdict, sample, facts


def test_every_gate_is_printed_over_its_unit():
    report = example()
    written = page(report)
    printed = re.findall(r'<span style="--gate: (#\w+); --on-gate: #\w+"><b>([\d.]+)</b></span>', written.html)
    gates = np.concatenate([modality.gates for modality in report.samples[0].modalities])
    assert printed == [(figures.gate_colour(gate)[0], f"{gate:.2f}") for gate in gates]


def test_scores_and_attention_of_every_unit_are_in_the_page():
    report = example()
    words = "".join(page(report).words)
    for evidence in report.samples[0].modalities:
        for score, before, after in zip(
            evidence.scores, evidence.attention_before, evidence.attention_after, strict=True
        ):
            assert re.search(rf"{score:.3f}\s+{100 * before:.1f}\s+{100 * after:.1f}\s", words)


def test_only_imputed_modalities_show_a_hidden_truth():
    alts = [image["alt"] for image in page(example()).all("img")]
    assert alts == ["plain, observed", "", "b, imputed", "b, the hidden truth", ""]


def test_images_come_back_bit_for_bit():
    from base64 import b64decode
    from io import BytesIO

    from PIL import Image

    image = modality().image
    encoded = figures.data_address(image).removeprefix("data:image/png;base64,")
    assert np.array_equal(np.asarray(Image.open(BytesIO(b64decode(encoded)))), image)


def test_no_two_elements_share_an_id_and_every_reference_is_answered():
    written = page(example())
    ids = set(written.ids)
    assert len(written.all("use")) > 4
    assert len(written.ids) == len(ids)
    assert {address["href"][1:] for address in written.all("use")} <= ids
    assert set(re.findall(r"url\(#([^)]+)\)", written.html)) <= ids


def test_chart_takes_every_colour_from_the_page():
    written = page(example())
    chart = written.html[written.html.index('<div class="wide">') : written.html.index('<ul class="key"')]
    assert set(re.findall(r"(?:fill|stroke): ([^;\"]+)", chart)) - {"none"} == {
        f"var(--{name})" for name in ("ink", "muted", "rule", "ground", "series-0")
    }
    assert set(re.findall(r"var\((--[\w-]+)\)", written.html)) <= set(re.findall(r"(--[\w-]+):", written.html))


def test_gate_numbers_are_readable_on_every_gate_colour():
    for gate in np.linspace(0, 1, 101):
        assert contrast(*map(luminance, figures.gate_colour(gate))) >= 4.5


def test_names_at_the_line_ends_do_not_overlap():
    values = [76.0, 76.1, 90.0, 75.9, 76.05]
    positions = figures._spread(values, 2.0)
    assert np.argsort(positions).tolist() == np.argsort(values).tolist()
    assert np.diff(sorted(positions)).min() > 1.99
    assert positions[2] == 90.0


def test_optional_parts_may_be_left_out():
    written = page(replace(example(), curves=None, samples=(), verdict=(), facts={}))
    assert not written.all("figure")
    assert not written.all("article")
    assert not written.all("footer")
    assert len(written.all("table")) == 1


def test_same_report_is_the_same_text():
    assert render_report(example()) == render_report(example())


def test_drawing_leaves_no_global_state_behind():
    import matplotlib

    settings, pyplot = dict(matplotlib.rcParams), "matplotlib.pyplot" in sys.modules
    curves = Curves("missing", (0.0, 1.0), {"a": ((1.0, 0.0, 2.0),) * 2})
    figures.accuracy_curve(curves, ["a"], featured=(), metric="Accuracy", width=720, prefix="chart")
    assert dict(matplotlib.rcParams) == settings
    assert ("matplotlib.pyplot" in sys.modules) == pyplot


def test_wrong_number_of_units_for_the_grid_is_an_error():
    with pytest.raises(
        ValueError, match=r"scores of 'view' has shape \[6\] but its grid is 2 x 2; give one value per unit, \[4\]"
    ):
        replace(modality(), grid=(2, 2))


def test_scores_passed_as_gates_are_an_error():
    with pytest.raises(ValueError, match=r"the gates of 'view' run from 0.1 to 1.7; .* pass gates, not scores"):
        replace(modality(), gates=np.array([0.1, 0.2, 0.3, 0.4, 0.5, 1.7]))


def test_values_that_are_not_finite_are_an_error():
    with pytest.raises(ValueError, match="scores of 'view' holds nan; give finite values"):
        replace(modality(), scores=np.array([0.1, np.nan, 0.3, 0.4, 0.5, 0.6]))


def test_image_with_channels_first_is_an_error():
    with pytest.raises(ValueError, match=r"the image of 'view' is uint8 of shape \[3, 6, 9\]; give uint8 \[h, w, 3\]"):
        replace(modality(), image=modality().image.transpose(2, 0, 1))


def test_row_that_does_not_fit_its_columns_is_an_error():
    with pytest.raises(ValueError, match="row 'plain' has 1 cells under 2 columns; give one for each"):
        replace(example(), columns=("complete", "half"))


def test_value_outside_its_interval_is_an_error():
    with pytest.raises(ValueError, match=r"row 'GAUGE' has 95 outside its interval \[0.9, 0.97\]"):
        Report("t", "l", columns=("complete",), rows=(Row("GAUGE", "gated", ((95.0, 0.9, 0.97),)),))


def test_curve_that_belongs_to_no_row_is_an_error():
    curves = Curves("missing", (0.0,), {"gage": ((1.0, 0.0, 2.0),)})
    with pytest.raises(ValueError, match="the curve of 'gage' belongs to no row; rows: plain, baseline"):
        replace(example(), curves=curves)


def test_curve_with_a_point_too_few_is_an_error():
    with pytest.raises(ValueError, match="the curve of 'a' has 1 points over 2 conditions; give one for each"):
        Curves("missing", (0.0, 0.5), {"a": ((1.0, 0.0, 2.0),)})
    with pytest.raises(ValueError, match="curves hold 2 conditions and 0 lines"):
        Curves("missing", (0.0, 0.5), {})
