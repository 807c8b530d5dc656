"""Methods without SGD, against written-out definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from mntrain.errors import ConfigError
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.groups import ClassGroups
from mntrain.heads.methods.controls import CONSTANTS, bias, fixed
from mntrain.heads.methods.linear import joint
from mntrain.heads.methods.logistic import logistic
from mntrain.heads.methods.nearest import knn, ncm
from mntrain.heads.methods.norms import TAUS, tau, tau_normalised
from mntrain.heads.methods.references import mlp, svm
from mntrain.heads.methods.registry import METHODS, find_method, find_methods
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.settings import HeadSections, parse_head_settings


def test_logistic_regression_is_converged_and_its_c_is_inside_the_grid(problem: HeadProblem) -> None:
    result = logistic(problem)
    assert result.linear is not None
    assert result.chosen["converged"]
    chosen, values = result.chosen["C"], result.sweeps[0].values
    assert values[0] < chosen < values[-1] or chosen in (1e-6, 1e6)
    ranks = [problem.rank(result.sweeps[0].predictor(value)) for value in values]
    assert ranks[values.index(chosen)] == max(ranks)
    # At the minimum of C Σ cross-entropy + ‖w‖²/2 the gradient is 0.
    weight, biases = problem.scale.unfolded(result.linear)
    inputs = problem.scale.rows(problem.store.train.features).astype(np.float64)
    errors = np.exp(inputs @ weight.T + biases)
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(inputs)), problem.store.train.labels] -= 1
    gradient = errors.T @ inputs + weight / chosen
    assert np.abs(gradient).max() < 2e-3 * len(inputs)


def test_votes_are_those_of_the_nearest_rows(problem: HeadProblem) -> None:
    result, store = knn(problem), problem.store
    count = result.chosen["neighbors"]
    train, queries = (problem.scale.rows(part.features) for part in (store.train, store.test))
    logits = result.predictor.logits(store.test.features)
    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1, rtol=1e-5)
    for row in range(0, len(queries), 7):
        near = np.argsort(np.linalg.norm(train - queries[row], axis=1))[:count]
        votes = np.bincount(store.train.labels[near], minlength=8)
        np.testing.assert_allclose(np.exp(logits[row]), (votes + 1 / 8) / (count + 1), rtol=1e-5)


def test_the_support_vector_machine_answers_as_scikit_learn_does(problem: HeadProblem) -> None:
    result, store = svm(problem), problem.store
    inputs, queries = (problem.scale.rows(part.features) for part in (store.train, store.test))
    model = SVC(C=result.chosen["C"], break_ties=True).fit(inputs, store.train.labels)
    logits = result.predictor.logits(store.test.features)
    np.testing.assert_array_equal(logits.argmax(axis=1), model.predict(queries))


def test_the_perceptron_learns_what_no_linear_head_can(problem: HeadProblem) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(600, 2)).astype(np.float32)
    split = FeatureSplit(features=rows, labels=(rows[:, 0] * rows[:, 1] > 0).astype(np.int64))
    store = replace(
        problem.store,
        network=replace(problem.store.network, features=2),
        label_names=("unlike", "alike"),
        train=split,
        validation=split,
        test=split,
    )
    head = replace(problem.settings.head, least_steps=400, hidden=16, learning_rate=0.2)
    odd = replace(
        problem,
        store=store,
        settings=HeadSections(head=head),
        scale=FeatureScale.of(rows),
        groups=ClassGroups(counts=store.counts),
    )
    assert odd.on_validation(mlp(odd).predictor).groups["all"].accuracy > 0.9
    assert odd.on_validation(joint(odd).predictor).groups["all"].accuracy < 0.7


def test_nearest_class_means_by_the_cosine_are_a_linear_layer(problem: HeadProblem) -> None:
    result, store = ncm(problem), problem.store
    mean = store.train.features.astype(np.float64).mean(axis=0)
    unit = store.train.features - mean
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    means = np.stack([unit[store.train.labels == label].mean(axis=0) for label in range(8)])
    queries = store.test.features - mean
    cosines = queries @ means.T / np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(means, axis=1))
    logits = result.predictor.logits(store.test.features).astype(np.float64)
    np.testing.assert_array_equal(logits.argmax(axis=1), cosines.argmax(axis=1))
    factors = logits / (cosines * np.linalg.norm(queries, axis=1, keepdims=True))
    np.testing.assert_allclose(factors, result.chosen["inverse_temperature"], rtol=1e-2)
    assert result.linear is not None
    losses = [problem.on_validation(replace_scaled(result, factor)).groups["all"].loss for factor in (0.8, 1.0, 1.25)]
    assert losses[1] == min(losses)


@pytest.mark.parametrize("power", [-105, -40, 40, 100])
def test_nearest_class_means_do_not_depend_on_the_unit_of_features(problem: HeadProblem, power: int) -> None:
    factor = np.float32(2.0**power)
    splits = {
        name: replace(problem.store.part(name), features=problem.store.part(name).features * factor)
        for name in ("train", "validation", "test")
    }
    store = replace(problem.store, **splits)
    changed = replace(problem, store=store, scale=FeatureScale.of(store.train.features))
    first, second = ncm(problem).predictor, ncm(changed).predictor
    expected = first.logits(problem.store.test.features)
    np.testing.assert_allclose(second.logits(store.test.features), expected, atol=1e-3)


def test_a_setting_is_tried_further_while_the_best_is_at_an_end(problem: HeadProblem, base: HeadResult) -> None:
    """Biases of few that are 20 nats too low: the constant is found far beyond the 5 nats that are tried at first."""
    assert base.linear is not None
    low = base.linear.bias.copy()
    low[5:] -= 20
    result = bias(with_head(problem, replace(base, predictor=replace(base.linear, bias=low))))
    sweep = result.sweeps[0]
    assert sweep.chosen is not None
    assert CONSTANTS.values[-1] < 15 < sweep.chosen < sweep.values[-1]
    ranks = {value: problem.rank(sweep.predictor(value)) for value in sweep.values}
    assert ranks[sweep.chosen] == max(ranks.values())
    assert result.notes == ()


def replace_scaled(result: HeadResult, factor: float):  # type: ignore[no-untyped-def]
    """The linear head with all logits multiplied."""
    head = result.linear
    assert head is not None
    return replace(head, weight=head.weight * np.float32(factor), bias=head.bias * np.float32(factor))


def test_weights_are_divided_by_a_power_of_their_norm_and_biases_dropped(
    problem: HeadProblem, base: HeadResult
) -> None:
    assert base.linear is not None
    weight, _ = base.scale.unfolded(base.linear)
    inputs = problem.scale.rows(problem.store.test.features)
    for value in (0.0, 0.7, 2.0):
        expected = inputs @ (weight / np.linalg.norm(weight, axis=1, keepdims=True) ** value).T
        head = tau_normalised(base.linear, base.scale, value)
        np.testing.assert_allclose(head.logits(problem.store.test.features), expected, atol=1e-4)
    result = tau(replace(problem, start=base))
    ranks = {value: problem.rank(tau_normalised(base.linear, base.scale, value)) for value in TAUS.values}
    assert result.chosen["tau"] == max(TAUS.values, key=ranks.__getitem__)
    assert tuple(round(step / 10, 1) for step in range(21)) == TAUS.values


def test_a_class_of_weights_0_keeps_them(base: HeadResult) -> None:
    assert base.linear is not None
    weight = base.linear.weight.copy()
    weight[2] = 0
    for value in (0.0, 2.0):
        head = tau_normalised(replace(base.linear, weight=weight), base.scale, value)
        assert not head.weight[2].any()


def test_the_constant_stands_on_the_biases_of_few_alone(problem: HeadProblem, base: HeadResult) -> None:
    given = with_head(problem, base, constant=0.5)
    result = bias(given)
    assert base.linear is not None
    assert result.linear is not None
    np.testing.assert_array_equal(result.linear.weight, base.linear.weight)
    np.testing.assert_allclose(result.linear.bias - base.linear.bias, [0, 0, 0, 0, 0, 0.5, 0.5, 0.5], atol=1e-5)
    chosen = bias(with_head(problem, base))
    sweep = chosen.sweeps[0]
    ranks = {value: problem.rank(sweep.predictor(value)) for value in sweep.values}
    assert chosen.chosen["constant"] == max(sweep.values, key=ranks.__getitem__)


def test_fixed_coefficients_add_the_nearest_base_classifiers(problem: HeadProblem, base: HeadResult) -> None:
    result = fixed(with_head(problem, base, coefficient=0.1))
    store = problem.store
    assert base.linear is not None
    assert result.linear is not None
    assert result.composition is not None
    means = [store.train.features[store.train.labels == label].astype(np.float64).mean(axis=0) for label in range(8)]
    for label in range(8):
        near = sorted(range(5), key=lambda other: float(np.linalg.norm(means[label] - means[other])))[:3]
        shares = dict.fromkeys(near, 0.1) if label > 4 else {}
        expected = base.linear.weight[label] + sum(share * base.linear.weight[other] for other, share in shares.items())
        np.testing.assert_allclose(result.linear.weight[label], expected, rtol=1e-4, atol=1e-6)
        expected_bias = base.linear.bias[label] + sum(
            share * base.linear.bias[other] for other, share in shares.items()
        )
        np.testing.assert_allclose(result.linear.bias[label], expected_bias, rtol=1e-4, atol=1e-5)
    plain = result.composition.to_json(store.label_names)
    assert plain["classes"] == ["class 5", "class 6", "class 7"]
    assert plain["coefficients"] == [[1.0, 0.1, 0.1, 0.1]] * 3


def test_controls_need_classes_of_few_and_base_classes(problem: HeadProblem, base: HeadResult) -> None:
    with pytest.raises(ConfigError, match="takes 9 base"):
        fixed(with_head(problem, base, neighbors=9))
    groups = replace(problem.groups, few=2)
    with pytest.raises(ConfigError, match=r"'bias' changes .*there is none"):
        bias(replace(with_head(problem, base), groups=groups, method="bias"))


def with_head(problem: HeadProblem, base: HeadResult, **values: object) -> HeadProblem:
    """The problem on a base classifier, with some settings changed."""
    head = replace(problem.settings.head, **values)  # type: ignore[arg-type]
    return replace(problem, start=base, settings=HeadSections(head=head))


def test_methods_are_found_by_name_and_after_a_hyphen_by_their_start() -> None:
    assert find_method("tau").start == "joint"
    assert find_method("crt").start is None
    named = find_method("bias-fixed-crt")
    assert (named.method, named.start) == (METHODS["bias"], "fixed-crt")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["crtt"], "no method 'crtt'; choose from joint.*Did you mean 'crt'"),
        (["bias-logistics"], "no method 'logistics'"),
        (["crt-joint"], "no method 'crt-joint'"),
        (["bias-knn"], "'knn', which is no linear classifier"),
        (["crt", "crt"], "each of them once"),
        ([], "give one or more"),
    ],
)
def test_wrong_names_are_told(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_methods(names)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--head.fwe", "3"], "--head.fwe is no setting of `mntrain head`; did you mean --head.few?"),
        (["--head.few", "300"], "head.few is 300; it must be from 0 to 101"),
        (["--head.momentum", "1"], "head.momentum is 1.0; it must be from 0 to below 1"),
        (["--head.constant", "nan"], "it must be a finite number or null"),
        (["--head.few", "some"], "it must be a whole number"),
        (["--head.base", "netwrk"], "Did you mean 'network'?"),
        (["--head.neighbors", "0"], "head.neighbors is 0; it must be from 1"),
    ],
)
def test_wrong_settings_are_told(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_head_settings(words)
    assert message in str(caught.value)
