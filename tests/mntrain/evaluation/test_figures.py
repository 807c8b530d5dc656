"""Figures of classes and targets: right by hand and as scikit-learn has them, and drawn whatever their number."""

import numpy as np
import pytest
from sklearn.metrics import classification_report, mean_absolute_error, r2_score

from mntrain.evaluation.classes import match_classes
from mntrain.evaluation.classification import classification_figures
from mntrain.evaluation.pictures import picture
from mntrain.evaluation.regression import TargetScale, value_figures
from mntrain.plotting.style import draw_raster, draw_svg

NAMES = ("ant", "bee", "cat")


def test_figures_of_three_classes_are_right_by_hand() -> None:
    labels, predictions = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 0, 0])
    found = classification_figures(labels, predictions, NAMES)
    ant, bee, cat = found.classes
    assert (ant.precision, ant.recall, ant.f1) == pytest.approx((2 / 4, 2 / 3, 4 / 7))
    assert (bee.precision, bee.recall, bee.f1) == pytest.approx((1 / 2, 1 / 2, 1 / 2))
    assert (cat.precision, cat.recall, cat.f1) == (0, 0, 0), "never predicted"
    assert [(one.support, one.predicted) for one in found.classes] == [(3, 4), (2, 2), (1, 0)]
    assert found.confusion.tolist() == [[2, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert found.accuracy == 0.5
    assert found.macro.f1 == pytest.approx((4 / 7 + 1 / 2) / 3)
    assert found.to_json()["confusion"] == {"classes": list(NAMES), "counts": found.confusion.tolist()}


def test_classes_without_examples_have_no_figures_and_do_not_lower_the_mean() -> None:
    found = classification_figures(np.array([1, 1, 1, 1]), np.array([1, 1, 1, 0]), NAMES)
    ant, bee, cat = found.classes
    assert (ant.precision, ant.recall, ant.f1, ant.support, ant.predicted) == (None, None, None, 0, 1)
    assert (cat.recall, cat.predicted) == (None, 0)
    assert (found.macro.classes, found.macro.precision, found.macro.recall) == (1, 1.0, 0.75)
    assert bee.f1 == found.macro.f1 == pytest.approx(6 / 7)


def test_many_classes_are_as_scikit_learn_has_them_with_the_likeliest_few() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 20, size=500)
    probabilities = random.random((500, 20)).astype(np.float32)
    probabilities[np.arange(500), labels] += 0.3
    predictions = probabilities.argmax(axis=1)
    names = tuple(f"class {number}" for number in range(20))
    found = classification_figures(labels, predictions, names, probabilities)
    expected = classification_report(labels, predictions, target_names=names, output_dict=True)
    for name, one in zip(names, found.classes, strict=True):
        assert (one.precision, one.recall, one.f1, one.support) == pytest.approx(tuple(expected[name].values()))
    assert found.macro.f1 == pytest.approx(expected["macro avg"]["f1-score"])
    ranks = (probabilities > probabilities[np.arange(500), labels][:, None]).sum(axis=1)
    assert found.top == {3: pytest.approx(np.mean(ranks < 3)), 5: pytest.approx(np.mean(ranks < 5))}


def test_classes_are_matched_by_name_and_unknown_ones_counted() -> None:
    found = match_classes(np.array([0, 1, 2, 1, 0]), ("bee", "wolf", "ant"), NAMES)
    assert found.kept.tolist() == [0, 2, 4]
    assert found.labels.tolist() == [1, 0, 1]
    assert found.left_out == {"wolf": 2}


def test_errors_of_two_targets_are_those_of_each() -> None:
    random = np.random.default_rng(0)
    scale = TargetScale(names=("north", "east"), mean=np.array([5.0, -2.0]), std=np.array([2.0, 10.0]))
    standardised = random.normal(size=(50, 2))
    truth = scale.own_units(standardised)
    estimates = scale.own_units(standardised + np.array([0.5, 0.1]))
    found = value_figures(truth, estimates, scale, unadapted=scale.own_units(standardised + np.array([1.0, 0.0])))
    north, east = found.targets
    assert (north.mse, north.rmse, north.mae, north.unadapted_mse) == pytest.approx((0.25, 1.0, 1.0, 1.0))
    assert (east.mse, east.rmse, east.mae, east.unadapted_mse) == pytest.approx((0.01, 1.0, 1.0, 0.0))
    assert found.mse == pytest.approx(0.13)
    for number, one in enumerate(found.targets):
        assert one.r2 == pytest.approx(r2_score(truth[:, number], estimates[:, number]))
        assert one.mae == pytest.approx(mean_absolute_error(truth[:, number], estimates[:, number]))


def test_equal_values_have_no_explained_variance() -> None:
    scale = TargetScale(names=("y",), mean=np.zeros(1), std=np.ones(1))
    assert value_figures(np.ones((3, 1)), np.zeros((3, 1)), scale).targets[0].r2 is None


@pytest.mark.parametrize("classes", [2, 100])
def test_the_matrix_is_drawn_with_every_name(classes: int) -> None:
    labels = np.arange(classes * 3) % classes
    names = tuple(f"a rather long name {number}" for number in range(classes))
    drawn = picture(classification_figures(labels, np.roll(labels, 1), names))
    svg = draw_svg(drawn.draw, name=drawn.name, size=drawn.size)
    assert all(svg.count(f">{name}<") == 2 for name in names), "on both axes"
    pixels = draw_raster(drawn.draw, size=drawn.size, dpi=40)
    assert pixels.shape[0] > 100
    edges = (pixels[0], pixels[-1], pixels[:, 0])
    assert all((edge == 255).mean() > 0.5 for edge in edges), "nothing is cut off"


def test_every_target_is_drawn_against_its_estimate() -> None:
    values = np.random.default_rng(0).normal(size=(30, 2))
    scale = TargetScale(names=("north", "east"), mean=np.zeros(2), std=np.ones(2))
    drawn = picture(value_figures(values, values * 0.9, scale))
    svg = draw_svg(drawn.draw, name=drawn.name, size=drawn.size)
    assert drawn.name == "scatter"
    assert ">north<" in svg
    assert ">east<" in svg
