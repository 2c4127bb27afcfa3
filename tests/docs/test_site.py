"""The site works when it is opened as a file: its search too, which browsers would run in a worker."""

from pathlib import Path

import pytest
from browser import browser, needs_browser

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
WORKER = """
addEventListener("message", event => postMessage(["first", event.data]))
addEventListener("message", event => postMessage(["second", event.data]))
"""
PAGE = """<!doctype html><title>a page</title><script src="iframe-worker.js"></script><script>
const heard = [], worker = new Worker("worker.js")
worker.addEventListener("message", event => heard.push(event.data))
worker.postMessage({ asked: 1 })
worker.postMessage({ asked: 2 })
</script>"""


@needs_browser
def test_a_worker_answers_in_a_page_that_is_opened_as_a_file(tmp_path):
    (tmp_path / "iframe-worker.js").write_bytes((ROOT / "docs" / "iframe-worker.js").read_bytes())
    (tmp_path / "worker.js").write_text(WORKER, encoding="utf-8")
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    with browser(tmp_path) as tab:
        tab.open((tmp_path / "page.html").as_uri(), 800)
        tab.until("heard.length >= 4")
        assert tab.value("heard.map(([who, what]) => who + what.asked)") == ["first1", "second1", "first2", "second2"]
        assert tab.messages == []


@needs_browser
@pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="`make docs` builds the site, then runs this test")
def test_the_search_of_the_site_finds_a_page_without_a_server(tmp_path):
    with browser(tmp_path) as tab:
        tab.open((SITE / "index.html").as_uri(), 1280)
        tab.value("document.querySelector('input[name=query]').focus()")
        tab.until("document.querySelector('.md-search-result__meta').textContent.startsWith('Type to start')")
        tab("Input.insertText", text="prediction set")
        tab.key("s", 83, "s")
        tab.until("document.querySelectorAll('.md-search-result__link').length > 0")
        found = tab.value("[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)")
        assert any("prediction-sets.html" in address for address in found)
        assert not any(address.startswith("http") for address in tab.requests)
        assert tab.messages == []
