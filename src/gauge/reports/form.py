"""The form of `gauge serve --ui`: a page on which people fill in a row and read its prediction, in one HTML file."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

from markupsafe import Markup

from gauge.reports.templates import template

Form = Literal["number", "date", "time", "choice", "text", "image"]


@dataclass(frozen=True)
class Field:
    """What the form asks for one column. `low` and `high` bound the usual values of a number or date, as texts."""

    name: str
    form: Form
    hint: str = ""
    choices: tuple[str, ...] = ()
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class FormPage:
    """The content of the page: a field for each column, and `facts` on how the model was trained."""

    title: str
    lead: str
    fields: tuple[Field, ...]
    facts: Mapping[str, str] = field(default_factory=dict)


def render_form(page: FormPage) -> tuple[str, str]:
    """Return the HTML document, which loads nothing from elsewhere, and its policy for the header `Content-Security-Policy`:
    a browser runs no script but its own."""
    script = files("gauge.reports").joinpath("form.js").read_text("utf-8")
    html = template("form.html").render(page=page, script=Markup(script), checksum=Markup(_checksum(script)))
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    policy = {
        "default-src": "'none'",
        "script-src": _checksum(script),
        "style-src": _checksum(style),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return html, "; ".join(f"{name} {value}" for name, value in policy.items())


def _checksum(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
