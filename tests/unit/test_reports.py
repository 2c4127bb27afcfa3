"""Laws of the report: one page that works offline and shows what it is given."""

import re
from dataclasses import replace

import numpy as np
from pages import Page

from gauge.reports.page import Report, Row, Sample, Section, View, ranked, render_report
from gauge.training.metrics import ACCURACY

HOSTILE = "</title><script>alert('$x')</script>"


def view(name: str = "view", seed: int = 0) -> View:
    return View(name, np.random.default_rng(seed).integers(0, 256, (6, 9, 3), dtype=np.uint8), trust=0.25)


def section(text: str = "plain") -> Section:
    point = (90.0, 88.0, 92.0)
    sample = Sample(
        text,
        "7",
        (view(text), replace(view("b", 1), wrong=True), View("c", None)),
        {text: ("7", 0.9), "vote": (text, 0.4)},
    )
    return Section(
        title=text,
        asked=text,
        missing=text,
        best=text,
        text=text,
        columns=(text, "half"),
        rows=(Row(text, text, (point,) * 2, featured=True), Row("vote", "votes", ((80.0, 70.0, 85.0),) * 2)),
        samples=(sample,),
        findings=(text,),
    )


def example(text: str = "plain") -> Report:
    bare = replace(section(text), samples=(), findings=())
    return Report(title=text, lead=text, sections=(section(text), bare), facts={text: text})


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
    assert "".join(written.words).count(HOSTILE) >= 15  # title, lead, cards, table, finding, sample, facts


def test_the_page_opens_with_what_was_asked_what_was_missing_and_who_is_right():
    report = replace(example(), sections=(replace(section(), asked="Which?", missing="Much.", best="Nobody."),))
    head = page(report).text.partition("Right out of 100")[0]
    assert re.search("What was asked Which. What was missing or wrong Much. Who is right most often Nobody.", head)
    written = page(example())
    links = [link["href"][1:] for link in written.all("a")]
    assert links == ["section-1", "section-2"]
    assert set(links) <= set(written.ids)


def test_views_are_shown_as_given_missing_or_wrong_with_their_trust():
    written = page(example())
    assert [image["alt"] for image in written.all("img")] == ["plain", "b, wrong"]
    assert "missing c" in written.text
    assert written.text.count("trust 0.25") == 2
    assert re.search(r"plain: 7 at 90 % right vote: plain at 40 % wrong", written.text)


def test_a_lead_within_chance_is_called_that():
    labels = np.arange(200) % 2
    right = np.eye(2)[labels]
    nearly, poor = right.copy(), right.copy()
    nearly[:2], poor[:80] = nearly[:2, ::-1], poor[:80, ::-1]
    best, findings = ranked({"poor": poor, "nearly": nearly, "right": right}, labels, ACCURACY.compare, "Here")
    assert best == "right: 100.0 of 100 right. nearly has 99.0: too close to call."
    assert [sentence.endswith("too close to call.") for sentence in findings] == [True, False]
    assert findings[1].startswith("Here, right minus poor: +40.0 of 100 (95 % from +3")
    assert findings[1].endswith("right is better.")
    best, _ = ranked({"poor": poor, "right": right}, labels, ACCURACY.compare, "Here")
    assert best == "right: 100.0 of 100 right; poor 60.0."
