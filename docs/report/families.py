"""The families of Transformers that `gauge.wrap` can gate."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from report.results import STUDIES

REASONS = {  # part of an error of `wrap` -> what it says of the model
    "is an encoder-decoder": "encoder-decoders",
    "gates reach": "their attention, or that of some blocks, is of a kind that gates do not reach",
    "reads ": "blocks that read something else than [b, s, c], such as grids of an image",
    "read [s, b, c]": "blocks that read something else than [b, s, c], such as grids of an image",
    "no list of Transformer blocks": "no list of blocks that are run one after the other",
    "does not run the blocks": "no list of blocks that are run one after the other",
    "positions for": "several tokens or patches in one position",
    "have the size of the blocks": "attention over something else of the same size",
    "of a token's effect": "a part of a token's effect passes its closed gate",
}


def families() -> str:
    """Every family that was tried, by what its head reads or why it is refused."""
    tried = json.loads((STUDIES / "families.json").read_text(encoding="utf-8"))["families"]
    wrapped, refused = defaultdict(list), defaultdict(list)
    for name, record in tried.items():
        if "refused" in record:
            refused[_reason(record["refused"])].append(_shown(name, record))
        else:
            wrapped[record["input"], _reads(record)].append(name)
    passed = [record for record in tried.values() if "refused" not in record]
    error, leak = (max(record[key] for record in passed) for key in ("error", "leak"))
    lines = [
        f"{len(passed)} of {len(tried)} are wrapped. Their logits with open gates differ by at most {error:.0e}, and at "
        f"most {100 * leak:.2f} % of a token's effect pass its closed gate.\n",
        "| input | the head reads | wrapped |",
        "|---|---|---|",
        *(f"| {kind} | {reads} | {', '.join(names)} |" for (kind, reads), names in sorted(wrapped.items())),
        "\n| refused, since | families |",
        "|---|---|",
        *(f"| {reason} | {', '.join(names)} |" for reason, names in sorted(refused.items())),
    ]
    return "\n".join(lines) + "\n"


def _reads(record: Mapping[str, Any]) -> str:
    if record["averages"]:
        return "an average weighted by gates"
    return "the last token" if record["reads_last"] else "fixed positions"


def _reason(error: str) -> str:
    return next((words for part, words in REASONS.items() if part in error.partition(";")[0]), "others, each by itself")


def _shown(name: str, record: Mapping[str, Any]) -> str:
    """The name, with the share that passes a closed gate, or with a reason that is its own."""
    error, reason = record["refused"], _reason(record["refused"])
    if reason.startswith("a part"):
        return f"{name} ({error.partition(' of ')[0]})"
    return f"{name}: {error.partition(';')[0].partition(', so that')[0]}" if reason.startswith("others") else name


TABLES: dict[str, Callable[[], str]] = {"families": families}
