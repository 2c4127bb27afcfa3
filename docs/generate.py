"""Write the tables of README and docs from the result files: `python docs/generate.py`, or `make tables`.

A table stands between `<!-- table: name -->` and `<!-- end -->`; what is between is replaced.
"""

import json
import re
import statistics
from pathlib import Path

from gauge.demo import ROWS
from gauge.evaluation import Result, load_predictions
from gauge.metrics import paired_test, score
from gauge.reports.tables import Table, row_name

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/how-it-works.md", "docs/reproduce.md")


def polymnist5k_results() -> dict[Path, Result]:
    """The committed results, in the order of the demo's rows and by seed."""
    found = {path: Result.load(path) for path in (ROOT / "results" / "polymnist5k").glob("*.json")}
    order = {"complete": 0} | {f"eta={rate}": rate for rate in (0.6, 0.8)}
    return dict(
        sorted(
            found.items(), key=lambda pair: (list(ROWS).index(pair[1].variant), pair[1].seed, order[pair[1].protocol])
        )
    )


def polymnist5k() -> str:
    """Accuracy of every row: mean ± deviation over seeds."""
    return Table.of(list(polymnist5k_results().values())).markdown()


def polymnist5k_paired() -> str:
    """GAUGE beside every other row, sample by sample, at the hardest condition."""
    by_row: dict[str, dict[int, Path]] = {}
    for path, result in polymnist5k_results().items():
        if result.protocol == "eta=0.8":
            by_row.setdefault(result.variant, {})[result.seed] = path
    lines = [
        "| GAUGE minus … at η = 0.8 | points, mean ± deviation over seeds | McNemar p of each seed |",
        "|---|---|---|",
    ]
    for variant, paths in by_row.items():
        if variant == "gauge":
            continue
        points, p_values = [], []
        for seed, path in paths.items():
            ours, labels = load_predictions(by_row["gauge"][seed])
            theirs, _ = load_predictions(path)
            points.append(100 * (score("accuracy", ours, labels) - score("accuracy", theirs, labels)))
            p_values.append(f"{paired_test('accuracy', theirs, ours, labels)[0]:.2g}")
        mean, deviation = statistics.mean(points), statistics.stdev(points)
        lines.append(f"| {row_name(('gauge', variant))} | {mean:+.2f} ± {deviation:.2f} | {', '.join(p_values)} |")
    return "\n".join(lines) + "\n"


def scoring_cost() -> str:
    """Times at batch 1 and ratios at batch 256 on each machine that was measured."""
    header = ("machine", "layout", "N", "Taylor, ms", "exact sequential, ms", "exact batched, ms")
    header += ("Taylor / forward", "prediction / forward")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for path in sorted((ROOT / "perf" / "results").glob("scoring_cost-*.json")):
        content = json.loads(path.read_text())
        machine = content["hardware"].get("gpu") or f"CPU, {content['hardware']['threads']} threads"
        for layout, row in content["rows"].items():
            times = [f"{row[key]:.2f}" for key in ("taylor_ms", "exact_sequential_ms", "exact_batched_ms")]
            mode = "_graph" if "forward_256_graph_ms" in row else ""
            ratios = [f"{row[f'{part}_over_forward_256{mode}']:.2f}" for part in ("taylor", "predict")]
            lines.append(f"| {machine} | {layout} | {row['units']} | {' | '.join(times + ratios)} |")
    return "\n".join(lines) + "\n"


TABLES = {"polymnist5k": polymnist5k, "polymnist5k-paired": polymnist5k_paired, "scoring-cost": scoring_cost}


def generated(text: str) -> str:
    """The page with every table written anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table: {match[1]} -->\n{TABLES[match[1]]()}<!-- end -->"

    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    for name in PAGES:
        page = ROOT / name
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
