"""The evidence page of a wrapped model: what spoke for and against a prediction, measured by closing gates, in a browser."""

import pytest
import torch
from browser import needs_browser, visit
from pages import HOSTILE, Page
from small_transformers import batch, small

from gauge import wrap
from gauge.paper.gauge import attention_bias

pytest.importorskip("transformers")
WORDS = [["no", "fever", "but", HOSTILE, "cough", "[SEP]"], ["well", "since", "monday", "[SEP]"]]


@pytest.mark.parametrize("name", ["Bert", "ViT", "Dinov2"])
def test_an_effect_is_what_closing_the_gate_of_one_token_does_to_the_probability(name):
    wrapped, inputs = wrap(small(name)), batch(name)
    explanation = wrapped.explain(**inputs, exact=True)
    classifier = wrapped.read(**inputs)
    probability, predicted = explanation.logits.softmax(1).max(1)
    for token in range(explanation.gates.shape[1]):
        gates = explanation.gates.clone()
        gates[:, token] = 0.0
        left = classifier(classifier.tokens, attention_bias(gates)).softmax(1)
        expected = probability - left[torch.arange(2), predicted]
        torch.testing.assert_close(explanation.effects[:, token], expected, rtol=0, atol=1e-6)
    assert explanation.effects.abs().max() > 0.01
    assert (explanation.effects[~explanation.visible].abs() < 1e-6).all()
    assert "used" in explanation.to_frame()
    assert "used" not in wrapped.explain(**inputs).to_frame()


def test_what_is_measured_knows_no_dropout_and_leaves_the_mode_as_it_was():
    wrapped = wrap(small("Bert"))
    expected = wrapped.explain(**batch("Bert"), exact=True)
    wrapped.train().model.classifier.eval()
    measured = wrapped.explain(**batch("Bert"), exact=True)
    assert torch.equal(measured.effects, expected.effects)
    assert torch.equal(wrapped.predict(**batch("Bert")).logits, expected.logits)
    assert wrapped.training
    assert wrapped.model.bert.training
    assert not wrapped.model.classifier.training


def test_a_page_names_the_words_for_and_against_the_prediction(tmp_path):
    explanation = wrap(small("Bert")).explain(**batch("Bert"), exact=True)
    explanation.to_html(tmp_path / "page.html", names=WORDS, labels=["LABEL_0", "LABEL_1"])
    page = Page((tmp_path / "page.html").read_text("utf-8"))
    frame = explanation.to_frame(WORDS)
    first = frame[frame["sample"] == 0].sort_values("used")
    words = page.text.replace("\u2212", "-")
    assert f"text “{first['name'].iloc[-1]}” ({100 * first['used'].iloc[-1]:+.1f})" in words
    assert f"{first['name'].iloc[0]}” ({100 * first['used'].iloc[0]:+.1f})" in words
    assert "gate 1.00" not in page.html, "all are open"
    assert "olumn" not in page.text, "words of tables"
    assert "BertForSequenceClassification" in page.text
    assert "Trusted" not in page.text  # nothing of that was measured


@needs_browser
def test_a_browser_opens_pages_of_texts_and_images(tmp_path):
    images = batch("ViT")["pixel_values"]
    wrap(small("Bert")).explain(**batch("Bert"), exact=True).to_html(tmp_path / "text.html", names=WORDS)
    wrap(small("ViT")).explain(pixel_values=images).to_html(tmp_path / "image.html", images=images)
    for name, count in (("text", 0), ("image", 4)):  # each image as given and under its gates
        loaded, requests, messages = visit(tmp_path / f"{name}.html", tmp_path)
        page = Page(loaded)
        assert page.skeleton.count(("article", ("class", "id"))) == 2
        assert "2 of 2 rows" in page.text  # its own script ran, and nothing else
        assert len(page.all("img")) == count
        assert requests == messages == []


def test_names_and_images_have_to_fit_the_tokens(tmp_path):
    explanation = wrap(small("Bert")).explain(**batch("Bert"))
    one_too_many = [["[CLS]", *words] for words in WORDS]
    for names, message in (
        ([["a", "b"], ["c"]], "sample 0 has 6 tokens but 2 names; give one for every token after the fixed"),
        (one_too_many, r"sample 0 has 6 tokens but 7 names; .* \(leave out the first 1\)"),
        ([WORDS[0], one_too_many[1]], "sample 1 has 4 tokens but 5 names"),
        (WORDS[:1], "names are of 1 samples, not of the 2 explained; give a list for each"),
    ):
        for show in (explanation.to_frame, lambda given: explanation.to_html(tmp_path / "page.html", names=given)):
            with pytest.raises(ValueError, match=message):
                show(names)
    assert (
        explanation.to_frame([[*words, *["[PAD]"] * (6 - len(words))] for words in WORDS])["name"].iloc[-1] == "[SEP]"
    )
    with pytest.raises(ValueError, match="6 tokens do not form a grid on 16 x 16 pixels; leave images out"):
        explanation.to_html(tmp_path / "page.html", images=torch.zeros(2, 3, 16, 16))
    for given in ({"labels": ["yes"]}, {"images": torch.zeros(3, 3, 16, 16)}):
        with pytest.raises(ValueError, match="has [13] of the 2 samples explained; give one for each"):
            explanation.to_html(tmp_path / "page.html", **given)
    assert not (tmp_path / "page.html").exists()
