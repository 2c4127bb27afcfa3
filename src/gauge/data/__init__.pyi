from .dataset import Dataset as Dataset
from .samples import gather as gather

__all__: list[str]
