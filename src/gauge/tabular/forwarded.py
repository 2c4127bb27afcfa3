"""Forwarded: attributes of an estimator that are those of its fitted value."""

from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar, overload, runtime_checkable

from gauge.tabular.fitted import Fitted

T = TypeVar("T")


@runtime_checkable
class HasFitted(Protocol):
    """An estimator with a fitted value."""

    fitted_: Fitted


class Forwarded(Generic[T]):
    """An attribute of the estimator that is one of the fitted value."""

    def __init__(self, read: Callable[[Fitted], T]) -> None:
        self.read = read

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...

    @overload
    def __get__(self, estimator: HasFitted, owner: type) -> T: ...

    def __get__(self, estimator: HasFitted | None, owner: type) -> Self | T:
        return self if estimator is None else self.read(estimator.fitted_)

    def __set__(self, estimator: HasFitted, value: T) -> None:
        raise AttributeError("a fitted attribute cannot be set; replace `fitted_`")
