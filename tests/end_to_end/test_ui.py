"""`gauge serve --ui` in a real browser: what a person fills in, sees and hears, on a desk and on a phone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, browser, needs_browser
from helpers import clinic
from pages import HOSTILE, Page

from gauge import GaugeClassifier
from gauge.reports.form import FormPage, render_form
from gauge.tabular.table.columns import Question

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httptools")

from serving import Client, serving

SET = """((column, value) => {
    const field = [...document.querySelectorAll(".field")].find((each) => each.dataset.column === column);
    const input = field.querySelector("input, select, textarea");
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
})"""
EXPLAINED = "document.querySelector('.verdict') && !document.querySelector('#wait')"
RESULT = "document.querySelector('.result').innerText"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    table = clinic(folder / "photos", rows=60)
    model = GaugeClassifier(epochs=1, random_state=0, verbose=False, image_folder=folder / "photos")
    model.fit(table, "diagnosis").save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def client(fitted) -> Iterator[Client]:
    with serving(fitted / "model", ui=True) as client:
        yield client


@pytest.fixture(scope="module")
def tab(tmp_path_factory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


def fill(tab: Browser, **values: str) -> None:
    for column, value in values.items():
        tab.value(f"{SET}({json.dumps(column)}, {json.dumps(value)})")


def predict(tab: Browser) -> str:
    """What the page says after the button was pressed, once all is there."""
    tab.value("document.querySelector('button.main').click()")
    tab.until(EXPLAINED)
    return tab.value(RESULT)


def test_there_is_no_page_unless_it_is_asked_for(fitted):
    with serving(fitted / "model") as client:
        assert client("GET", "/")[0] == 404


def test_every_column_has_a_labelled_field_of_its_kind(client):
    status, html = client("GET", "/")
    page = Page(html)
    fields = {each["data-column"]: each["data-form"] for each in page.all("div") if "data-column" in each}
    assert status == 200
    assert fields == {"age": "number", "site": "choice", "sex": "choice", "notes": "text", "photo": "image"}
    inputs = [*page.all("input"), *page.all("select"), *page.all("textarea")]
    assert {each["for"] for each in page.all("label")} == {each["id"] for each in inputs}
    assert all(each["aria-describedby"] in page.ids for each in inputs)
    assert page.addresses == []


def test_names_of_columns_and_categories_are_text():
    ordinary, hostile = (
        render_form(FormPage(text, text, {text: chosen, text * 2: Question("number", low=text)}, {text: text}))
        for text in ("ordinary", HOSTILE)
        for chosen in [Question("choice", text, (text,))]
    )
    assert Page(ordinary[0]).skeleton == Page(hostile[0]).skeleton
    assert ordinary[1] == hostile[1]


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_shows_the_prediction_of_the_server_and_its_reasons(fitted, client, tab, width, dark):
    requests, messages = len(tab.requests), len(tab.messages)
    tab.open(f"http://127.0.0.1:{client.port}/", width, dark=dark)
    fill(tab, age="52", site="arm", notes="itches a lot")
    tab.choose_file("input[type=file]", next((fitted / "photos").iterdir()))
    tab.until("document.querySelector('.preview')?.complete")
    text = predict(tab)
    row = tab.value("Object.fromEntries([...document.querySelectorAll('.preview')].map((each) => ['photo', each.src]))")
    row = {"age": 52, "site": "arm", "notes": "itches a lot", "photo": row["photo"].partition(",")[2]}
    answer = client.predict(row)[1]["predictions"][0]
    explanation = client("POST", "/explain", {"rows": [row]})[1]["explanations"][0]
    chosen = answer["prediction"]
    assert f"{chosen}, {100 * answer['probabilities'][chosen]:.1f} %" in text
    assert all(heading in text for heading in ("Speaks for it", "Speaks against it", "Does not fit"))
    for column, effect in explanation["effects"].items():
        shown = f"{100 * effect:+.1f}".replace("-", "−")
        assert (shown in text) == (abs(effect) >= 0.005), column
    helps = any(each["gain"] >= 0.005 for each in explanation["helpful"].values())
    assert ("What to expect of rows like this one once the missing value is known" in text) == helps
    assert ("No single missing value is known to make the answer better" in text) == (not helps)
    assert tab.value("document.documentElement.scrollWidth") <= width
    own = f"http://127.0.0.1:{client.port}/"
    assert {each for each in tab.requests[requests:] if not each.startswith("data:")} == {
        own,
        f"{own}predict",
        f"{own}explain",
    }
    assert tab.messages[messages:] == []


@needs_browser
def test_what_cannot_be_read_is_said_at_its_field_and_what_does_not_fit_in_the_answer(client, tab):
    tab.open(f"http://127.0.0.1:{client.port}/", 390)
    fill(tab, age="old")
    tab.value("document.querySelector('button.main').click()")
    tab.until("document.querySelector('[aria-invalid=true]')")
    assert "valid number" in tab.value("document.querySelector('[data-column=age] .problem').innerText")
    assert tab.value("document.activeElement.labels[0].innerText") == "age"
    fill(tab, age="400")
    assert "Unusual" in tab.value("document.querySelector('[data-column=age] .unusual').innerText")
    assert "age: 400 is beyond" in predict(tab)
    tab.value("document.querySelector('button[type=reset]').click()")
    assert "No prediction yet" in tab.value(RESULT)
    assert "only how often each class occurs" in predict(tab)


@needs_browser
def test_a_script_that_is_not_the_page_s_own_does_not_run(client, tab):
    tab.open(f"http://127.0.0.1:{client.port}/", 1280)
    tab.value(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = 1'}))"
    )
    assert tab.value("document.title") == "Predicting diagnosis"
    assert any("Content Security Policy" in message for message in tab.messages)
    tab.messages.clear()
