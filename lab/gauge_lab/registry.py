"""Components of the laboratory: benchmarks and methods, and encoders and imputers that only benchmarks use.

It is the plugin `lab` of `gauge`: its kinds are shown by `gauge list` and found by name wherever it is installed.
"""

from typing import TYPE_CHECKING, Any

from gauge.registry import ENCODERS, IMPUTERS, KINDS, Kind

if TYPE_CHECKING:  # nothing here needs torch
    from gauge.types import Method

METHODS: "Kind[type[Method]]" = Kind("method", ["gauge_lab.methods"])
BENCHMARKS: Kind[Any] = Kind("benchmark", ["gauge_lab.benchmarks"])

KINDS |= {"benchmarks": BENCHMARKS, "methods": METHODS}
ENCODERS.packages.append("gauge_lab.encoders")
IMPUTERS.packages.append("gauge_lab.imputers")
