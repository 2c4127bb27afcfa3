from .dataset import Dataset as Dataset

__all__: list[str]
