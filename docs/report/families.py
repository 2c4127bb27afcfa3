"""The families of Transformers that `gauge.wrap` can gate."""

import json
from collections.abc import Callable

from report.results import STUDIES


def families() -> str:
    """Every family that was tried: what gates do to it, or why it is refused."""
    tried = json.loads((STUDIES / "families.json").read_text(encoding="utf-8"))["families"]
    lines = ["| family | input | logits with open gates differ by | passes a closed gate | the head reads |"]
    lines.append("|---" * 5 + "|")
    for name, record in tried.items():
        if "refused" in record:
            reason = record["refused"].partition(" in the ")[0].partition(";")[0].partition(", so that")[0]
            if " of a token" in reason:
                reason = f"{reason.partition(' of a token')[0]} pass a closed gate"
            lines.append(f"| {name} | {record['input']} | refused: {reason} | | |")
        else:
            reads = "the last token" if record["reads_last"] else "fixed positions"
            reads = "an average weighted by gates" if record["averages"] else reads
            row = f"{record['error']:.0e} | {100 * record['leak']:.1f} % | {reads}"
            lines.append(f"| {name} | {record['input']} | {row} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {"families": families}
