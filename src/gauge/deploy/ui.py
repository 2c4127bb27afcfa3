"""The page of `gauge serve --ui`, made for the columns of a classifier."""

from gauge.reports.form import FormPage, render_form
from gauge.tabular.saved.classifier import TableClassifier


def form_page(classifier: TableClassifier) -> tuple[str, str]:
    """The HTML of the page and its content security policy."""
    target = classifier.target or "the label"
    lead = (
        "Fill in what is known about one case and leave the rest empty: the model was made for missing values. The "
        "prediction says what it relied on, and which value to ask for next."
    )
    questions = {column.name: column.question() for column in classifier.columns}
    return render_form(FormPage(f"Predicting {target}", lead, questions, classifier.facts()))
