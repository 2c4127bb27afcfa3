"""Types and shapes are checked at every call of a function of the package, cheaply enough for training loops."""

import dataclasses
import functools
import inspect
import threading
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
CHECKERS: dict[Any, Callable] = {}  # of functions inside functions, by their place
called = threading.local()  # the one of them that is being called


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
    if "<locals>" in function.__qualname__ and function.__code__.co_filename != "<string>":
        return function if jaxtyping.config.jaxtyping_disable else _inner(function, typechecker)
    hints = _hints(function)
    if any(map(_names_axes, hints.values())):
        return with_shapes(function, typechecker=typechecker)
    given, function.__annotations__ = function.__annotations__, hints
    types_checked = typechecker(function)
    function.__annotations__ = given
    return function if types_checked is function else _unless_disabled(function, types_checked)


def _inner(function: Any, typechecker: Callable) -> Any:
    """Functions that the calls of another one define at the same place share a checker: it takes milliseconds to make."""
    place = function.__code__.co_filename, function.__code__
    if place not in CHECKERS:

        @functools.wraps(function)
        def defined_now(*args: Any, **kwargs: Any) -> Any:
            return called.function(*args, **kwargs)

        hints, signature = _hints(function), inspect.signature(function)
        arguments = [each.replace(annotation=hints.get(name, Any)) for name, each in signature.parameters.items()]
        defined_now.__signature__ = inspect.Signature(arguments, return_annotation=hints.get("return", Any))
        CHECKERS[place] = with_shapes(defined_now, typechecker=typechecker)

    def check(*args: Any, **kwargs: Any) -> Any:
        called.function = function
        return CHECKERS[place](*args, **kwargs)

    return _unless_disabled(function, check)


def _unless_disabled(function: Any, check: Callable) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if jaxtyping.config.jaxtyping_disable else check)(*args, **kwargs)

    return call


def _hints(function: Any) -> dict[str, Any]:
    return {name: _resolved(hint, function.__globals__) for name, hint in function.__annotations__.items()}


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
