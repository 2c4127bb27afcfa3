"""The HTML templates of all reports: every text is escaped, and an undefined name is an error."""

import hashlib
import re
from base64 import b64encode
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from gauge.reports import figures


@cache
def template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("gauge", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"colours": figures.COLOURS, "three_digits": figures.three_digits}
    environment.globals |= {"data_address": figures.data_address, "gate_colour": figures.gate_colour}
    return environment.get_template(name)


def compact(text: str) -> str:
    """Without indentation, which only readers of the template need."""
    return re.sub(r"\n\s+", "\n", text)


def checksum(text: str) -> str:
    """The name of a script or a style in a content security policy."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
