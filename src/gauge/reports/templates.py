"""The HTML templates of all reports: every text is escaped, and an undefined name is an error."""

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
