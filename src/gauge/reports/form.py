"""The form of `gauge serve --ui`: a page on which people fill in a row and read its prediction, in one HTML file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from gauge.reports.templates import checksum, template


@dataclass(frozen=True)
class FormPage:
    """The content of the page: the question for each column, see `Column.question`, and `facts` on how the model was
    trained."""

    title: str
    lead: str
    questions: Mapping[str, Any]
    facts: Mapping[str, str] = field(default_factory=dict)


def render_form(page: FormPage) -> tuple[str, str]:
    """Return the HTML document, which loads nothing from elsewhere, and its policy for the header `Content-Security-Policy`:
    a browser runs no script but its own."""
    script = files("gauge.reports").joinpath("form.js").read_text("utf-8")
    html = template("form.html").render(page=page, script=Markup(script), checksum=Markup(checksum(script)))
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    policy = {
        "default-src": "'none'",
        "script-src": checksum(script),
        "style-src": checksum(style),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return html, "; ".join(f"{name} {value}" for name, value in policy.items())
