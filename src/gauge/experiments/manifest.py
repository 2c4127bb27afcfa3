"""What makes every table and figure of the paper, and every generated table of the documentation."""

from dataclasses import dataclass

from gauge.experiments.benchmarks.readers.tables import GAMMA_PROTOCOLS

FAMILY = ("gauge:masked", "gauge:v2", "gauge:v3", "gauge")
CONTROLS = ("any_subset", "dymo", "gauge:v1", *FAMILY, "gauge:scalar")
SCORES = tuple(f"gauge:gauge-{name}" for name in ("random", "feature-norm", "gradient-norm", "attention"))
NORMALIZATIONS = ("gauge:gauge-zscore", "gauge:gauge-raw")
GRIDS = tuple(f"gauge:gauge-grid{side}" for side in (3, 4, 5, 6, 8))
INFORMED = "gauge:gauge-informed"
ETA = ("complete", "eta=0.2", "eta=0.4", "eta=0.6", "eta=0.8")
EVERY = tuple(f"every={rate}" for rate in (0.2, 0.4, 0.6, 0.8))
SVHN = ("missing=text", "missing=mnist+text")
VOTES = "late_fusion:equal-votes"
PLUS = ("gauge_plus", VOTES)
FAIR = ("gauge_plus", "gauge_plus:gauge_plus-heads-only", "late_fusion")
FAIR_DATA = ("polymnist", "mst", "celeba", "leaf99", "ham10000", "celeba_table")
NO_HEADS, SWAPS = "gauge_plus:gauge_plus-no-heads", "gauge_plus:gauge_plus-swaps"
PARTS = (
    "gauge_plus",
    *(f"gauge_plus:gauge_plus-{name}" for name in ("no-whole", "no-heads", "no-combination", "old-encoders", "gated")),
)
TRUST = ("gauge_plus:gauge_plus-trust", "gauge_plus:gauge_plus-trust-imputed")
UNLABELLED = ("gauge_plus", "gauge_plus:gauge_plus-informed", TRUST[1], "gauge_plus:gauge_plus-taught")
SWAPPED = (*ETA, "swapped=0.2", "swapped=0.4")
LABELS = (256, 1024, 4096)
ORACLE = ("gauge:v1", "gauge:v2", "gauge")
READINGS = ("gauge", "gauge:v2", "gauge:gauge-read-encoder", "gauge:v1", "dymo", "any_subset", "gauge:masked")
EUCLIDEAN = ("dymo:dymo-e", "any_subset:any_subset-euclidean")
OTHERS = (
    *("moddrop", "mtl", "map", "map:map-dagger", "online_mae", "multiae", "multiae:multiae-dagger", "mopoe"),
    *("mopoe:mopoe-dagger", "late_fusion:unimodal", "concat", "qmf", "pdf", "dynmm", "muse", "m3care"),
    "m3care:m3care-dagger",
)
LONG = ("gauge:v2", "gauge", "gauge:masked", "dymo", "gauge:v1")  # in the order of their value if time is short


@dataclass(frozen=True)
class Run:
    """One comparison, kept in a folder under `results`: what `gauge benchmark` is asked for. `settings` is a YAML file
    there; `audits` are the protocols of `gauge audit` for every seed of the rows `audited`."""

    benchmark: str
    rows: tuple[str, ...]
    seeds: int
    settings: str = ""
    protocols: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    audited: tuple[str, ...] = ("gauge",)


@dataclass(frozen=True)
class Entry:
    """A table or figure: what it shows, and the runs and scripts that it needs. Scripts have the placeholders DATA, RUNS and
    RESULTS."""

    title: str
    runs: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()


TABULAR = (*CONTROLS, INFORMED, *SCORES, *NORMALIZATIONS)
HEARTS = (*CONTROLS, *SCORES, *NORMALIZATIONS, *GRIDS, "all")
RUNS = {
    "polymnist5k": Run("polymnist5k", (*CONTROLS,), 3, audits=("eta=0.8", "eta=0.6")),
    "polymnist5k/baselines": Run("polymnist5k", ("moddrop", "map:map-dagger"), 3),
    "polymnist5k/readings": Run("polymnist5k", (*READINGS, *EUCLIDEAN), 3),
    "polymnist5k/shared": Run("polymnist5k", ("any_subset", "dymo"), 3, "polymnist5k/shared.yaml"),
    "polymnist5k/oracle": Run("polymnist5k", ORACLE, 3, "polymnist5k/oracle.yaml"),
    "polymnist5k/complete": Run("polymnist5k", ("moddrop", "map:map-dagger"), 3, "polymnist5k/complete.yaml"),
    "polymnist5k/parts": Run("polymnist5k", PARTS, 3, "polymnist5k/parts.yaml"),
    "polymnist/cosine": Run(
        "polymnist",
        (*CONTROLS, INFORMED, *SCORES, VOTES),
        5,
        "polymnist/cosine.yaml",
        (*ETA, *EVERY),
        ("eta=0.8", "eta=0.6"),
    ),
    "polymnist/constant": Run("polymnist", FAMILY, 5, "polymnist/constant.yaml", (*ETA, *EVERY)),
    "polymnist/all": Run("polymnist", ("all",), 3, "polymnist/all.yaml"),
    "polymnist/plus": Run("polymnist", ("gauge_plus",), 5, "polymnist/plus.yaml"),
    "polymnist/cosine100": Run("polymnist", (*FAMILY, INFORMED, "dymo"), 5, "polymnist/cosine100.yaml", audits=ETA[3:]),
    "polymnist/start0": Run("polymnist", (INFORMED,), 5, "polymnist/start0.yaml"),
    "polymnist/gates50": Run("polymnist", ("gauge:v3", "gauge", INFORMED), 5, "polymnist/gates50.yaml", audits=ETA[3:]),
    "polymnist/constant100": Run("polymnist", ("gauge:masked", "gauge:v2", "gauge"), 5, "polymnist/constant100.yaml"),
    "polymnist/complete100": Run(
        "polymnist", ("moddrop", "mtl", "map:map-dagger", "online_mae"), 3, "polymnist/complete100.yaml"
    ),
    **{
        f"polymnist/labels{count}": Run("polymnist", (*PLUS, NO_HEADS), 5, f"polymnist/labels{count}.yaml")
        for count in LABELS
    },
    "polymnist/trust": Run(
        "polymnist",
        (*TRUST, SWAPS),
        3,
        "polymnist/trust.yaml",
        SWAPPED,
        ("eta=0.8", "swapped=0.2", "swapped=0.4"),
        TRUST,
    ),
    "polymnist/sound": Run("polymnist", PLUS, 3, "polymnist/trust.yaml", SWAPPED),
    "polymnist/dynamic": Run("polymnist", ("qmf", "pdf", "dynmm"), 3, "polymnist/trust.yaml", SWAPPED),
    **{
        f"polymnist/unlabelled{count}": Run("polymnist", UNLABELLED, 3, f"polymnist/unlabelled{count}.yaml")
        for count in LABELS
    },
    **{
        f"{name}/trust": Run(name, TRUST[1:], 3, f"{name}/trust.yaml", audits=("gamma=0.5", "gamma=0.9"), audited=TRUST)
        for name in ("leaf99", "ham10000", "celeba_table")
    },
    "mst": Run("mst", (*CONTROLS, INFORMED, *NORMALIZATIONS, VOTES), 5, "mst/subset.yaml", audits=SVHN),
    "mst/reversed": Run("mst", ("gauge:v1", "dymo", "gauge:v2", "gauge"), 3, "mst/reversed.yaml"),
    "mst/plus": Run("mst", PLUS, 5, "mst/plus.yaml"),
    "mst/long": Run("mst", LONG, 3, "mst/long.yaml"),
    "mst/all": Run("mst", OTHERS, 3, "mst/all.yaml"),
    "celeba": Run("celeba", (*CONTROLS, *NORMALIZATIONS, VOTES), 5, "celeba/subset.yaml"),
    "celeba/plus": Run("celeba", PLUS, 5, "celeba/plus.yaml"),
    "celeba/long": Run("celeba", LONG, 3, "celeba/long.yaml"),
    "celeba/reversed": Run("celeba", LONG, 3, "celeba/reversed.yaml"),
    "celeba_table": Run("celeba_table", (*LONG, SCORES[0], "gauge:v3", *PLUS), 5, "celeba_table/settings.yaml"),
    "celeba_table/balanced": Run("celeba_table", (*LONG, SCORES[0]), 5, "celeba_table/balanced.yaml"),
    "celeba_chubby": Run("celeba_chubby", (*LONG, SCORES[0]), 3, "celeba_table/settings.yaml"),
    "celeba_chin": Run("celeba_chin", (*LONG, SCORES[0]), 3, "celeba_table/settings.yaml"),
    "leaf99": Run("leaf99", (*TABULAR, "all"), 5, "leaf99/settings.yaml", audits=("gamma=0.9",)),
    "leaf99/disjoint": Run("leaf99", (*PLUS, "gauge:masked", "gauge:v2", "gauge", "dymo"), 5, "leaf99/disjoint.yaml"),
    "leaf99/parts": Run("leaf99", PARTS, 5, "leaf99/disjoint.yaml"),
    "leaf99/readings": Run("leaf99", (*READINGS, *EUCLIDEAN), 2, "leaf99/cpu.yaml", audits=("gamma=0.5", "gamma=0.9")),
    "leaf99/oracle": Run("leaf99", ORACLE, 2, "leaf99/oracle.yaml"),
    "leaf99/iterative": Run("leaf99", ("gauge",), 5, "leaf99/iterative.yaml"),
    "leaf99/epochs100": Run("leaf99", ("all",), 3, "leaf99/epochs100.yaml"),
    "ham10000": Run("ham10000", (*TABULAR, *GRIDS), 3, audits=("gamma=1",)),
    "ham10000/iterative": Run("ham10000", ("gauge",), 3, "ham10000/iterative.yaml"),
    "ham10000/plus": Run("ham10000", PLUS, 5, "ham10000/plus.yaml"),
    "ham10000/long": Run("ham10000", LONG, 3, "ham10000/long.yaml", audits=("gamma=0.5", "gamma=0.9")),
    "leaf99/equal": Run("leaf99", ("gauge:masked", "gauge:v2", "gauge", "mtl"), 5, "leaf99/equal.yaml"),
    **{f"{name}/fair": Run(name, FAIR, 5, f"{name}/fair.yaml") for name in FAIR_DATA},
    "dvm": Run("dvm", HEARTS, 5),
    "cad": Run("cad", HEARTS, 5, protocols=tuple(map(str, GAMMA_PROTOCOLS))),
    "infarction": Run("infarction", HEARTS, 5, protocols=tuple(map(str, GAMMA_PROTOCOLS))),
}
PLUS_RUNS = (
    *("polymnist/plus", "polymnist/cosine", "polymnist/all", *(f"polymnist/labels{count}" for count in LABELS)),
    *("leaf99/disjoint", "mst/plus", "mst", "celeba/plus", "celeba", "celeba_table", "ham10000/plus", "ham10000"),
)
PUBLISHED_DATA = ("dvm", "cad", "infarction")
SUBSETS = ("polymnist/cosine", "mst", "celeba")
IMPUTATION = "perf/imputation.py {0} --data DATA --runs RUNS/{0} --out RESULTS/{0}"
GATES = "perf/gates.py {0} {1} --data DATA --runs RUNS/{0}"
BOUND = "perf/bound.py {0} {1} --data DATA --runs RUNS/{0}"
LEAVES = " --config RESULTS/leaf99/cpu.yaml"
PAPER = {
    "table-1": Entry(
        "Comparison of methods on six benchmarks", ("polymnist/all", "mst/all", *SUBSETS, *PUBLISHED_DATA)
    ),
    "table-2": Entry("Ablation of fine-grained evidence control", (*SUBSETS, *PUBLISHED_DATA)),
    "table-3": Entry("Scoring time, Taylor and exact", scripts=("perf/scoring_cost.py",)),
    "scoring": Entry("Ablation of evidence-unit scoring", (*SUBSETS, *PUBLISHED_DATA)),
    "normalization": Entry("Ablation of score normalisation", ("mst", "celeba", "cad", "infarction")),
    "figure-missing-rate": Entry("AUC against the missing rate γ", ("cad", "infarction")),
    "figure-units": Entry("AUC against the size of units", ("cad", "infarction")),
    "figure-gates": Entry(
        "Gates and attention before and after, on data that is open",
        scripts=(GATES.format("polymnist5k", "eta=0.8"), GATES.format("leaf99", "gamma=0.9") + LEAVES + " --seeds 2"),
    ),
    "figure-gates-polymnist": Entry(
        "The same on full PolyMNIST",
        scripts=(GATES.format("polymnist", "eta=0.8") + " --config RESULTS/polymnist/cosine.yaml",),
    ),
    "figure-gates-ham10000": Entry(
        "The same on ham10000",
        scripts=(GATES.format("ham10000", "gamma=1") + " --config RESULTS/ham10000/long.yaml",),
    ),
    "figure-gates-infarction": Entry(
        "The same on Infarction, as in the paper", scripts=(GATES.format("infarction", "gamma=1"),)
    ),
}
DOCS = {
    "headline": Entry(
        "GAUGE+ in the hardest conditions",
        (
            *("polymnist/plus", "polymnist/cosine", "polymnist/labels256", "leaf99/disjoint", "mst/plus", "mst"),
            *("celeba/plus", "celeba", "ham10000/plus", "ham10000"),
        ),
    ),
    "verdicts": Entry("The paper's claims on PolyMNIST", ("polymnist/all", "polymnist/cosine", "mst", "celeba")),
    "celeba": Entry("CelebA, every condition", ("celeba",)),
    "celeba-complete": Entry("CelebA, differences on complete samples", ("celeba",)),
    "celeba-faces": Entry("CelebA, differences without text", ("celeba",)),
    "polymnist5k": Entry("The data of the demo", ("polymnist5k",)),
    "polymnist5k-paired": Entry("The data of the demo, differences", ("polymnist5k",)),
    "polymnist5k-hidden": Entry("What gates that knew the truth could bring", ("polymnist5k",)),
    "polymnist5k-selection": Entry("How the epoch is chosen", ("polymnist5k/baselines", "polymnist5k/complete")),
    "polymnist": Entry("PolyMNIST, every missing rate", ("polymnist/cosine",)),
    "polymnist-every": Entry("PolyMNIST, every subset", ("polymnist/cosine",)),
    "polymnist-paired": Entry("PolyMNIST, differences", ("polymnist/cosine",)),
    "polymnist-published": Entry("PolyMNIST beside the paper", ("polymnist/cosine",)),
    "polymnist-scoring": Entry("PolyMNIST, other scores", ("polymnist/cosine",)),
    "polymnist-constant": Entry("PolyMNIST with a constant rate", ("polymnist/constant",)),
    "polymnist-constant-paired": Entry("PolyMNIST with a constant rate, differences", ("polymnist/constant",)),
    "polymnist-methods": Entry("All methods on PolyMNIST", ("polymnist/all", "polymnist/cosine")),
    "polymnist-longer": Entry("GAUGE's rows with 20 epochs", ("polymnist/all",)),
    "gates-trained": Entry(
        "A: PolyMNIST at the paper's length, with more for gates",
        ("polymnist/cosine100", "polymnist/start0", "polymnist/gates50", "polymnist/constant100"),
    ),
    "published-selection": Entry(
        "B: baselines that keep the first best epoch on complete data", ("polymnist/all", "polymnist/complete100")
    ),
    "polymnist-speed": Entry("Training speed of all methods", ("polymnist/all",)),
    "audit": Entry("Audit of GAUGE on PolyMNIST", ("polymnist/cosine",)),
    "separation": Entry("Which scores tell right from wrong", ("polymnist/cosine",)),
    "plus-polymnist": Entry("GAUGE+ on PolyMNIST", ("polymnist/plus", "polymnist/cosine", "polymnist/all")),
    "plus-leaf99": Entry("GAUGE+ on leaf99", ("leaf99/disjoint",)),
    "plus-calibration": Entry("Calibration of GAUGE+ on leaf99", ("leaf99/disjoint",)),
    "plus-parts": Entry("GAUGE+ without one of its parts", ("polymnist5k/parts",)),
    "table-networks": Entry("The network for tables beside TabM", scripts=("perf/table_networks.py",)),
    "plus-mst": Entry("GAUGE+ on MST", ("mst/plus", "mst")),
    "plus-celeba": Entry("GAUGE+ on CelebA", ("celeba/plus", "celeba")),
    "plus-celeba-table": Entry("GAUGE+ on celeba_table", ("celeba_table",)),
    "plus-ham10000": Entry("GAUGE+ on ham10000", ("ham10000/plus", "ham10000")),
    "plus-goals": Entry("What GAUGE+ was meant to reach", PLUS_RUNS),
    **{
        f"plus-labels{count}": Entry(f"GAUGE+ on PolyMNIST with {count} labels", (f"polymnist/labels{count}",))
        for count in LABELS
    },
    "trust-goals": Entry(
        "What learned trust was meant to reach",
        (
            "polymnist/trust",
            "polymnist/sound",
            "polymnist/dynamic",
            "leaf99/trust",
            "ham10000/trust",
            "celeba_table/trust",
        ),
    ),
    "trust-imputed": Entry("Imputing with trust on PolyMNIST", ("polymnist/trust", "polymnist/sound")),
    "trust-polymnist": Entry("Learned trust on PolyMNIST", ("polymnist/trust", "polymnist/sound", "polymnist/dynamic")),
    "trust-audit": Entry(
        "Audit of learned trust", ("polymnist/trust", "leaf99/trust", "ham10000/trust", "celeba_table/trust")
    ),
    **{
        f"unlabelled{count}": Entry(
            f"PolyMNIST with {count} labels and 60,000 samples", (f"polymnist/unlabelled{count}",)
        )
        for count in LABELS
    },
    "mst": Entry("MST, every condition", ("mst",)),
    "mst-methods": Entry("E: other methods on MST", ("mst/all", "mst/long")),
    "mst-paired": Entry("MST, differences", ("mst",)),
    "mst-audit": Entry("Audit of GAUGE on MST", ("mst",)),
    "mst-reversed": Entry("MST with the published likelihood of texts", ("mst/reversed",)),
    "leaf99-gamma": Entry("leaf99, every missing rate", ("leaf99", "leaf99/iterative")),
    "leaf99-paired": Entry("leaf99, differences", ("leaf99", "leaf99/iterative")),
    "leaf99-scoring": Entry("leaf99, other scores", ("leaf99",)),
    "leaf99-imputation": Entry(
        "Imputed cells of leaf99",
        scripts=(IMPUTATION.format("leaf99") + " --config RESULTS/leaf99/settings.yaml --seeds 3",),
    ),
    "leaf99-methods": Entry("All methods on leaf99", ("leaf99",)),
    "leaf99-methods-100": Entry("All methods on leaf99, 100 epochs", ("leaf99/epochs100",)),
    "ham10000-gamma": Entry("ham10000, every missing rate", ("ham10000", "ham10000/iterative")),
    "ham10000-paired": Entry("ham10000, differences", ("ham10000", "ham10000/iterative")),
    "ham10000-scoring": Entry("ham10000, other scores", ("ham10000",)),
    "ham10000-grids": Entry("ham10000, finer units", ("ham10000",)),
    "ham10000-imputation": Entry("Imputed cells of ham10000", scripts=(IMPUTATION.format("ham10000"),)),
    "noise": Entry("The same model twice", ("mst", "celeba", "leaf99", "ham10000")),
    "power": Entry(
        "What could have been found", ("polymnist5k", "polymnist/cosine", "mst", "celeba", "leaf99", "ham10000")
    ),
    "budgets": Entry(
        "How much gates trained", ("polymnist5k", "polymnist/cosine", "mst", "celeba", "leaf99", "ham10000")
    ),
    "claims": Entry(
        "The paper's claims",
        ("polymnist/all", "polymnist/cosine", "mst", "mst/all", "mst/long", "celeba", "celeba/long", "ham10000/long"),
    ),
    "conditions": Entry(
        "The paper's incomplete conditions, counted out",
        ("polymnist/all", "mst/all", *SUBSETS, "mst/long", "celeba/long"),
    ),
    "mst-long": Entry("E: MST with 4,250 steps of fine-tuning", ("mst/long",)),
    "celeba-long": Entry("E: CelebA with 4,000 steps of fine-tuning", ("celeba/long",)),
    "ham10000-long": Entry("E: ham10000 with 4,161 steps of fine-tuning", ("ham10000/long",)),
    "celeba-reversed": Entry("F: CelebA with the published likelihood of texts", ("celeba/reversed",)),
    "celeba-table": Entry("C: an image and a table like CAD", ("celeba_table",)),
    "celeba-table-balanced": Entry("D: with an imputer of the balanced rows", ("celeba_table/balanced",)),
    "imputer-rows": Entry("D: does a gain need an imputer that knows more?", ("celeba_table", "celeba_table/balanced")),
    "polymnist5k-readings": Entry(
        "G: units read before the embeddings, Euclidean prototypes", ("polymnist5k/readings",)
    ),
    "polymnist5k-oracle": Entry("G: perfect imputation", ("polymnist5k/oracle", "polymnist5k/readings")),
    "shared-embedding": Entry(
        "What DyMo's shared embedding costs or brings", ("polymnist5k/shared", "polymnist5k/readings")
    ),
    "leaf99-readings": Entry("G: the same on leaf99", ("leaf99/readings",)),
    "leaf99-oracle": Entry("G: perfect imputation on leaf99", ("leaf99/oracle", "leaf99/readings")),
    "leaf99-audit": Entry("G: audit of GAUGE on leaf99", ("leaf99/readings",)),
    "ham10000-audit": Entry("G: audit of GAUGE on ham10000", ("ham10000/long",)),
    "leaf99-disjoint": Entry("leaf99 on divisions that do not overlap", ("leaf99/disjoint",)),
    "bound": Entry(
        "How tight Theorem 1 and its corollary are",
        scripts=(
            BOUND.format("polymnist5k", "eta=0.8"),
            BOUND.format("leaf99", "gamma=0.9") + LEAVES + " --samples 8 --units 16",
        ),
    ),
    "dymo-speed": Entry("DyMo's selection, stacked and candidate by candidate", scripts=("perf/dymo_speed.py",)),
    "scoring-cost": Entry("Scoring time on our machines", scripts=("perf/scoring_cost.py",)),
    "prediction-cost": Entry("Prediction time on our machines", scripts=("perf/scoring_cost.py",)),
    "serving": Entry("Requests a second of gauge serve", scripts=("perf/serving.py",)),
    "export-cost": Entry("Predictions with torch and with ONNX", scripts=("perf/serving.py",)),
    "streaming": Entry(
        "Memory and speed of tables in files", scripts=("perf/streaming.py predict", "perf/streaming.py fit")
    ),
    "on-ray": Entry("Predictions on Ray", scripts=("perf/on_ray.py",)),
    "pipeline-cost": Entry(
        "Seconds of every stage",
        scripts=tuple(f"perf/pipeline.py {n} --data DATA" for n in ("polymnist", "leaf99", "ham10000")),
    ),
    "classifier-cost": Entry("What GaugeClassifier costs", scripts=("perf/classifier.py",)),
    "when": Entry("What to use for which data", ("polymnist/trust", "polymnist/unlabelled256"), ("perf/tables.py",)),
    "cell-trust": Entry("Trust in the cells of tables", scripts=("perf/cell_trust.py",)),
    "rivals": Entry("GaugeClassifier beside its rivals", scripts=("perf/tables.py",)),
    "own-data": Entry("An image and a table, as 0.1.0 measured them", scripts=("perf/tables.py",)),
}
OPEN = {  # experiments that no page reports yet
    "fair": Entry(
        "GAUGE+ beside voters with its encoders and its training", tuple(f"{name}/fair" for name in FAIR_DATA)
    ),
    "equal": Entry("Rows on one backbone with the encoders and the training of GAUGE+", ("leaf99/equal",)),
    "plus-parts-leaf99": Entry("GAUGE+ without one of its parts on leaf99", ("leaf99/parts",)),
    "face-tables": Entry("C: two more attributes as targets, like Infarction", ("celeba_chubby", "celeba_chin")),
}
MANIFEST = {**PAPER, **DOCS, **OPEN}
