"""Methods by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mntrain.errors import ConfigError
from mntrain.fields.suggestion import nearest
from mntrain.heads.methods.alpha import alpha
from mntrain.heads.methods.checks import HeadCheck, check_bias, check_composed, check_fixed, check_joint
from mntrain.heads.methods.controls import bias, fixed
from mntrain.heads.methods.linear import crt, joint, lws
from mntrain.heads.methods.logistic import logistic
from mntrain.heads.methods.meta_neighborhoods import meta_neighborhoods
from mntrain.heads.methods.nearest import knn, ncm
from mntrain.heads.methods.norms import tau
from mntrain.heads.methods.references import mlp, svm
from mntrain.heads.problem import HeadProblem, HeadResult

TRAINED = "meta-neighborhoods"
"""Method that trains a family by a recipe."""
BASE = "joint"
"""Method whose classifier others start from and are compared with."""


@dataclass(frozen=True, kw_only=True)
class HeadMethod:
    """Method of the registry.

    Args:
        run: makes the head.
        summary: in a line.
        on_base: it changes a linear classifier, that of the base or of another method after a hyphen (``bias-crt``).
        linear: its head is a linear classifier, which others can start from.
        check: of settings against a store, before any head is made; None where a method fits every store.
    """

    run: Callable[[HeadProblem], HeadResult]
    summary: str
    on_base: bool = False
    linear: bool = True
    check: HeadCheck | None = None


@dataclass(frozen=True, kw_only=True)
class NamedMethod:
    """Method with the linear method that it starts from.

    Args:
        name: as it was given.
        method: of the registry.
        start: name of the method whose classifier it starts from; None where it starts from none.
    """

    name: str
    method: HeadMethod
    start: str | None


METHODS: Mapping[str, HeadMethod] = MappingProxyType(
    {
        "joint": HeadMethod(
            run=joint, summary="linear probe, every row alike; or the network's own last layer", check=check_joint
        ),
        "logistic": HeadMethod(run=logistic, summary="logistic regression, converged, C chosen on validation rows"),
        "knn": HeadMethod(run=knn, summary="k nearest training rows; scores only, no artifact", linear=False),
        "svm": HeadMethod(
            run=svm, summary="support vector machine, RBF kernel; scores only, no artifact", linear=False
        ),
        "mlp": HeadMethod(run=mlp, summary="perceptron with a hidden layer; scores only, no artifact", linear=False),
        "ncm": HeadMethod(run=ncm, summary="nearest class mean by the cosine, as a linear layer"),
        "tau": HeadMethod(run=tau, summary="weights divided by their norm to the power τ", on_base=True),
        "crt": HeadMethod(run=crt, summary="new classifier, rows drawn class by class"),
        "lws": HeadMethod(run=lws, summary="one learned scale for each class", on_base=True),
        TRAINED: HeadMethod(
            run=meta_neighborhoods,
            summary="adapted to every row by its learned neighbors; an artifact, though not linear",
            linear=False,
        ),
        "bias": HeadMethod(
            run=bias,
            summary="control: a constant on the biases of classes of few",
            on_base=True,
            check=check_bias,
        ),
        "fixed": HeadMethod(
            run=fixed,
            summary="control: fixed coefficients of neighbors for few",
            on_base=True,
            check=check_fixed,
        ),
        "alpha": HeadMethod(
            run=alpha,
            summary="Alpha Net: learned coefficients of neighbors for few",
            on_base=True,
            check=check_composed,
        ),
    }
)


def find_method(name: str) -> NamedMethod:
    """Find a method by its name, such as ``crt``, ``bias`` or ``bias-crt``.

    Raises:
        ConfigError: there is none of the name; the nearest one is told.
    """
    if (method := METHODS.get(name)) is not None:
        return NamedMethod(name=name, method=method, start=BASE if method.on_base else None)
    stage, _, start = name.partition("-")
    if start and (method := METHODS.get(stage)) is not None and method.on_base:
        if not find_method(start).method.linear:
            raise ConfigError(f"Method {name!r} starts from {start!r}, which is no linear classifier; choose another.")
        return NamedMethod(name=name, method=method, start=start)
    near = nearest(name, (*METHODS, *(f"{stage}-crt" for stage, method in METHODS.items() if method.on_base)))
    hint = "" if near is None else f" Did you mean {near!r}?"
    on_base = [key for key, method in METHODS.items() if method.on_base]
    raise ConfigError(
        f"There is no method {name!r}; choose from {', '.join(METHODS)}. After {', '.join(on_base)} and a hyphen may "
        f"stand the method that it starts from, as in bias-crt.{hint}"
    )


def find_methods(names: Sequence[str]) -> tuple[NamedMethod, ...]:
    """Find several methods.

    Raises:
        ConfigError: none is given, one is given twice, or one is unknown.
    """
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"Methods are {', '.join(names) or 'none'}; give one or more, each of them once.")
    return tuple(find_method(name) for name in names)


def needed_methods(methods: Sequence[NamedMethod]) -> tuple[NamedMethod, ...]:
    """Return methods with all those that they start from, or are compared with."""
    found: dict[str, NamedMethod] = {}
    waiting = list(methods)
    while waiting:
        method = waiting.pop(0)
        if method.name not in found:
            found[method.name] = method
            waiting.append(find_method(method.start or BASE))
    return tuple(found.values())
