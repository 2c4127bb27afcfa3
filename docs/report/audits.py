"""What `gauge stage audit` found: gates of right and wrong units, and accuracy without what is imputed."""

from collections.abc import Callable
from statistics import mean, stdev

from report.results import NOT_MEASURED, ROOT, gate_rate, read_records


def has_audit(folder: str) -> bool:
    return (ROOT / "results" / folder / "audit.json").exists()


def audit(folder: str) -> str:
    """The findings of `gauge stage audit` on the trained GAUGE models: mean and deviation over seeds, and all changed
    predictions."""
    lines = [
        "| protocol | seeds | rank correlation with exact effects | gate: observed | imputed | imputed and right | imputed "
        "and wrong | AUC of the gate, right against wrong | imputed that is right | predictions changed: better, worse |",
        "|---" * 10 + "|",
    ]
    for protocol, records in read_audits(folder).items():
        gates = [spread(records, key) for key in ("gate_observed", "gate_imputed", "gate_right", "gate_wrong")]
        gate = spread([record["separation"] for record in records], "gate")
        changed, better, worse = (sum(record[key] for record in records) for key in ("changed", "better", "worse"))
        right = 100 * sum(record["imputed_right"] for record in records) / len(records)
        head = f"| {protocol}{gate_rate(folder)} | {len(records)} | {spread(records, 'rank_correlation')}"
        lines.append(
            f"{head} | {' | '.join(gates)} | {gate} "
            f"| {right:.0f} % | {changed} of {sum(record['samples'] for record in records):,}: {better}, {worse} |"
        )
    return "\n".join(lines) + "\n"


def cell_audit(folder: str) -> str:
    """The same for tables, whose imputed cells are judged by their error."""
    if not has_audit(folder):
        return NOT_MEASURED
    scores = ("gate", "taylor", "exact", "random")
    head: tuple[str, ...] = ("protocol", "seeds", "rank correlation with exact effects", "gate: observed", "imputed")
    head += (*(f"AUC of {name}" for name in scores), "accuracy without gates", "with gates", "imputed hidden")
    lines = [f"| {' | '.join((*head, 'predictions changed: better, worse'))} |", "|---" * (len(head) + 1) + "|"]
    for protocol, records in read_audits(folder).items():
        columns = [spread(records, key) for key in ("rank_correlation", "gate_observed", "gate_imputed")]
        columns += [spread([record["separation_cells"] for record in records], name) for name in scores]
        percent = [{name: 100 * value for name, value in record["accuracy"].items()} for record in records]
        columns += [spread(percent, name, 1) for name in ("without gates", "with gates", "imputed hidden")]
        changed, better, worse = (sum(record[key] for record in records) for key in ("changed", "better", "worse"))
        total = sum(record["samples"] for record in records)
        start = f"| {protocol}{gate_rate(folder)} | {len(records)} | {' | '.join(columns)}"
        lines.append(f"{start} | {changed} of {total:,}: {better}, {worse} |")
    return "\n".join(lines) + "\n"


def separation(folder: str) -> str:
    """How well each kind of score tells imputed units of the right class from those of a wrong one."""
    audits = {
        protocol: [record["separation"] for record in records] for protocol, records in read_audits(folder).items()
    }
    lines = [
        f"| AUC, right against wrong{gate_rate(folder)} | {' | '.join(audits)} |",
        "|---" * (len(audits) + 1) + "|",
    ]
    for name in next(iter(audits.values()))[0]:
        lines.append(f"| {name} | {' | '.join(spread(records, name) for records in audits.values())} |")
    return "\n".join(lines) + "\n"


def hidden(folder: str) -> str:
    """The accuracy of GAUGE's network with gates, without, and with units hidden instead."""
    audits = {protocol: [record["accuracy"] for record in records] for protocol, records in read_audits(folder).items()}
    names = list(next(iter(audits.values()))[0])
    lines = [f"| accuracy, % | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for protocol, records in audits.items():
        percent = [{name: 100 * value for name, value in accuracies.items()} for accuracies in records]
        lines.append(f"| {protocol}{gate_rate(folder)} | {' | '.join(spread(percent, name) for name in names)} |")
    return "\n".join(lines) + "\n"


def read_audits(folder: str) -> dict[str, list[dict]]:
    records: dict[str, list[dict]] = {}
    for record in read_records(folder, "audit.json"):
        records.setdefault(record["protocol"], []).append(record)
    return records


def spread(records: list[dict], key: str, digits: int = 2) -> str:
    values = [record[key] for record in records]
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


TABLES: dict[str, Callable[[], str]] = {
    "audit": lambda: audit("polymnist/cosine"),
    "polymnist5k-hidden": lambda: hidden("polymnist5k"),
    "separation": lambda: separation("polymnist/cosine"),
    "mst-audit": lambda: audit("mst"),
    "leaf99-audit": lambda: cell_audit("leaf99/readings"),
    "ham10000-audit": lambda: cell_audit("ham10000/long"),
}
