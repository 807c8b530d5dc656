"""Methods that a cross-validation compares: scikit-learn's, families, and the two starts of Meta-Neighborhoods."""

from collections.abc import Sequence

from mntrain.comparison.variants import BUILT_IN
from mntrain.errors import ConfigError
from mntrain.fields.suggestion import nearest
from mntrain.models.families import FAMILIES, SHORT_NAMES

KNN, BOOSTING = "knn", "gradient_boosting"
BASELINES = (KNN, BOOSTING)
STARTS = ("mn-paper", "mn-data")
"""Meta-Neighborhoods with either start of the dictionary, whichever the recipe takes; variants of a comparison."""
_TESTED = ("meta_neighborhoods", "mn-data", "mn-paper")
_TITLES = {KNN: "kNN", BOOSTING: "boosting", "meta_neighborhoods": "MN", "mn-paper": "MN paper", "mn-data": "MN data"}


def read_methods(words: Sequence[str]) -> tuple[str, ...]:
    """Read the words of ``--families``: short names become the families' own.

    Raises:
        ConfigError: a word is no method, or stands there twice, or there is none.
    """
    methods = tuple(SHORT_NAMES.get(word, word) for word in words)
    regressors = (name for name, family in FAMILIES.items() if family.build_regressor is not None)
    available = [*BASELINES, *regressors, *STARTS]
    wrong = [name for name in methods if name not in available]
    if wrong or not methods or len(set(methods)) < len(methods):
        meant = nearest(wrong[0], [*available, *SHORT_NAMES]) if wrong else None
        raise ConfigError(
            f"--families is {','.join(methods)!r}; give some of {','.join(available)}, each once."
            + (f" Did you mean {meant!r}?" if meant else "")
        )
    return methods


def method_words(method: str) -> tuple[str, ...]:
    """Return the overrides that make ``method`` from a recipe; it is no baseline."""
    return BUILT_IN[method].words if method in STARTS else ("--family", method)


def tested(methods: Sequence[str]) -> str | None:
    """Name the Meta-Neighborhoods whose differences to the others are tested; None without any.

    Of both starts it is the start from data.
    """
    return next((method for method in _TESTED if method in methods), None)


def title(method: str) -> str:
    """Return the heading of a method's column."""
    return _TITLES.get(method, method)
