"""Types and shapes are checked at every call of a function of the package, cheaply enough for training loops."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping

# jaxtyping checks functions one by one, where typing.Self means nothing to beartype
CHECKER = (
    "beartype.beartype(conf=beartype.BeartypeConf("
    "hint_overrides=beartype.FrozenDict({__import__('typing').Self: object}), "
    "violation_type=__import__('jaxtyping').TypeCheckError))"
)
with_shapes = jaxtyping.jaxtyped


def install() -> None:
    """Check all modules of the package that are imported from here on."""
    jaxtyping.jaxtyped = checked  # what the hook decorates with
    jaxtyping.install_import_hook("gauge", CHECKER)


def checked(function: Any = None, *, typechecker: Callable) -> Any:
    """`jaxtyping.jaxtyped`, which binds the arguments of each call to names: most of the time of a small function, and of
    no use where no axis is named. Such functions have their types checked without that."""
    if function is None:
        return functools.partial(checked, typechecker=typechecker)
    if inspect.isclass(function):
        if dataclasses.is_dataclass(function) and "__init__" in vars(function):
            function.__init__ = checked(function.__init__, typechecker=typechecker)
        return function
    hints = {name: _resolved(hint, function.__globals__) for name, hint in function.__annotations__.items()}
    if any(map(_names_axes, hints.values())):
        return with_shapes(function, typechecker=typechecker)
    given, function.__annotations__ = function.__annotations__, hints
    types_checked = typechecker(function)
    function.__annotations__ = given
    if types_checked is function:  # nothing to check
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if jaxtyping.config.jaxtyping_disable else types_checked)(*args, **kwargs)

    return call


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    """The type that a hint means, or Any where that is not defined yet."""
    holder = type("Holder", (), {"__annotations__": {"hint": hint}})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["hint"]
    except (NameError, TypeError):
        return Any


def _names_axes(hint: Any) -> bool:
    if isinstance(hint, list | tuple):  # the arguments of a Callable
        return any(map(_names_axes, hint))
    if isinstance(hint, typing.TypeVar):
        return _names_axes((hint.__bound__, *hint.__constraints__))
    return (isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)) or _names_axes(typing.get_args(hint))
