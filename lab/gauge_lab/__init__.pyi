from .audit import audit as audit
from .experiment import Experiment as Experiment
from .methods.dymo import DyMo as DyMo
from .results import evaluate as evaluate

__all__: list[str]
