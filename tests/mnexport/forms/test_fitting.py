"""Directions of a classifier: queries that they are fitted to, queries that judge them, and their bounds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mnexport.errors import FormError
from mnexport.forms.low_rank.choice import low_rank
from mnexport.forms.low_rank.head import NormHead, SubspaceHead
from mnexport.forms.low_rank.queries import AdaptationSetting, LowRank, RankLimits
from mnexport.forms.low_rank.rank import RankRule
from mnexport.forms.meta_neighborhoods import AdaptiveHead
from mntrain.models.meta_neighborhoods.inner import CosineProblem, tangent
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

Build = Callable[..., MetaNeighborhoods]
Queries = Callable[..., Tensor]
ENTRIES, CLASSES, FEATURES = 60, 4, 12
# One step is approximated in its norm, more steps in the weight itself.
NORM, SUBSPACE = 1, 3
kinds = pytest.mark.parametrize("steps", [NORM, SUBSPACE], ids=["norm", "subspace"])


def limits(tolerance: float, *, rank: int | None = None, table_bytes: int = 2**20) -> RankLimits:
    return RankLimits(RankRule(tolerance=tolerance, given=rank), table_bytes)


def error_of(model: MetaNeighborhoods, head: torch.nn.Module, features: Tensor) -> float:
    """Largest error of a probability, computed in double precision."""
    expected = AdaptiveHead(model.double(), "explicit").double()(features.double()).softmax(-1)
    error = float((head.double()(features.double()).softmax(-1) - expected).abs().max())
    model.float()
    head.float()
    return error


def everywhere(count: int) -> Tensor:
    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(11))


def spread(model: MetaNeighborhoods) -> MetaNeighborhoods:
    """Build a model with entries far apart, so that an image far from the others is adapted in other directions."""
    noise = torch.randn(ENTRIES, FEATURES, generator=torch.Generator().manual_seed(12))
    with torch.no_grad():
        model.dictionary.keys.add_((0.7 if model.step_count == NORM else 0.2) * noise)
    return model


def directions_of(found: LowRank) -> Tensor:
    """Count the directions of each class: [C]."""
    assert isinstance(found.head, NormHead)
    return found.head.norm.table().classes.sum(dim=0)


@kinds
def test_the_rank_keeps_the_tolerance_of_images_that_it_was_not_fitted_to(
    build: Build, queries: Queries, steps: int
) -> None:
    model, fitted = spread(build(steps=steps)), queries(40)
    alone = low_rank(model, fitted, fitted, limits(0.01))
    assert alone is not None
    assert error_of(model, alone.head, everywhere(40)) > 0.01, "images that this rank is not enough for"

    found = low_rank(model, fitted, everywhere(40), limits(0.01))

    assert found is not None
    assert found.rank > alone.rank
    assert error_of(model, found.head, everywhere(40)) <= 0.005 + 1e-6
    assert low_rank(model, fitted, everywhere(40), limits(0.01, rank=alone.rank)) is None


@kinds
def test_the_rank_keeps_the_tolerance_of_images_that_it_was_fitted_to(
    build: Build, queries: Queries, steps: int
) -> None:
    model, easy = spread(build(steps=steps)), queries(40)
    alone, found = (low_rank(model, fitted, easy, limits(0.01)) for fitted in (easy, everywhere(40)))
    assert alone is not None
    assert found is not None
    assert found.rank > alone.rank
    assert error_of(model, found.head, everywhere(40)) <= 0.005 + 1e-6


@kinds
def test_directions_are_fitted_to_the_keys_of_the_dictionary_too(build: Build, queries: Queries, steps: int) -> None:
    """Two images tell nothing of the others; the keys, which lie where these lie, do."""
    model = build(steps=steps)
    found = low_rank(model, queries(1).repeat(2, 1), queries(40, 2), limits(0.02))
    assert found is not None
    assert found.rank <= CLASSES * FEATURES // 2


def test_directions_of_a_class_count_by_how_far_they_turn_its_weight(build: Build, queries: Queries) -> None:
    """Steps of ατ/‖w‖ turn a short weight further, so that its squares weigh ‖w‖⁻⁴."""
    model = build()
    with torch.no_grad():
        model.head.weight.copy_(model.head.weight / model.head.weight.norm(dim=-1, keepdim=True))
        model.head.weight.mul_(torch.tensor([[1.0], [1.5], [2.0], [3.0]]))
    problem = AdaptationSetting.of(model).problem
    assert isinstance(problem, CosineProblem)
    weights = AdaptationSetting.of(model).queries(torch.cat([queries(40), model.dictionary.keys])).weights
    moved = tangent(weights, problem)[0].transpose(0, 1)
    energies = torch.linalg.svdvals(moved).square()
    length = model.head.weight.double().norm(dim=-1, keepdim=True)

    def counts(power: int, rank: int) -> list[int]:
        """Directions of each class among the strongest by ‖w‖ to a power."""
        classes = (energies * length**power).flatten().argsort(descending=True)[:rank] // FEATURES
        return classes.bincount(minlength=CLASSES).tolist()

    ranks = range(2, 30)
    found = [low_rank(model, queries(40), queries(40, 2), limits(0.99, rank=rank)) for rank in ranks]
    assert [directions_of(item).tolist() for item in found if item is not None] == [counts(-4, rank) for rank in ranks]
    for power in (0, -2):
        assert any(counts(-4, rank) != counts(power, rank) for rank in ranks), "weights that matter"


@kinds
def test_the_largest_table_is_within_the_limit_to_the_byte(build: Build, queries: Queries, steps: int) -> None:
    model = build(steps=steps)
    wanted = low_rank(model, queries(40), queries(40, 2), limits(1e-3))
    assert wanted is not None
    largest = max(4 * buffer.numel() for name, buffer in wanted.head.named_buffers() if "problem" not in name)
    beside = CLASSES if steps == NORM else 0
    assert largest == 4 * ENTRIES * (wanted.rank + beside), "R directions, and s beside them"

    within = low_rank(model, queries(40), queries(40, 2), limits(1e-3, table_bytes=largest))

    assert within is not None
    assert within.rank == wanted.rank
    assert low_rank(model, queries(40), queries(40, 2), limits(1e-3, table_bytes=largest - 1)) is None
    for table_bytes in (4 * ENTRIES, 1):
        assert low_rank(model, queries(40), queries(40, 2), limits(1e-3, table_bytes=table_bytes)) is None


@kinds
@pytest.mark.parametrize("head", ["cosine", "dot"])
def test_a_rank_above_the_number_of_entries_is_refused(build: Build, queries: Queries, steps: int, head: str) -> None:
    """Fewer entries than there are directions: 20 of 48, or of 52 with the bias."""
    form = "per_parameter" if head == "dot" else "scalar"
    model = build(steps=steps, entries=20, head=head, step_size_form=form)
    found = low_rank(model, queries(40), queries(40, 2), limits(0.99, rank=20))
    assert found is not None
    assert found.rank == 20
    assert isinstance(found.head, NormHead if (head, steps) == ("cosine", NORM) else SubspaceHead)
    least = 1 if isinstance(found.head, NormHead) else CLASSES
    with pytest.raises(FormError, match=rf"--rank is 24; this model takes {least} to 20 .*the 20 entries of its dict"):
        low_rank(model, queries(40), queries(40, 2), limits(0.99, rank=24))


@kinds
def test_a_rank_that_the_table_does_not_hold_is_refused(build: Build, queries: Queries, steps: int) -> None:
    model = build(steps=steps)
    beside = CLASSES if steps == NORM else 0
    held = limits(0.99, rank=16, table_bytes=4 * ENTRIES * (12 + beside))
    with pytest.raises(
        FormError, match=r"--rank is 16; this model takes . to 12 .*no more than a table of .* MiB holds"
    ):
        low_rank(model, queries(40), queries(40, 2), held)
    nothing = limits(0.99, rank=16, table_bytes=4 * ENTRIES * beside + 1)
    with pytest.raises(
        FormError, match=r"--rank is 16; .*no more than a table of .* holds\. Leave out --rank, and take"
    ):
        low_rank(model, queries(40), queries(40, 2), nothing)


def test_fewer_entries_than_classes_leave_no_rank_to_give(build: Build, queries: Queries) -> None:
    model = build(steps=3, entries=3)
    with pytest.raises(FormError, match=r"--rank is 4; .* at least 4 .* the 3 entries of its dictionary\. Leave"):
        low_rank(model, queries(40), queries(40, 2), limits(0.99, rank=4))
    found = low_rank(model, queries(40), queries(40, 2), limits(0.99))
    assert found is not None
    assert found.rank >= CLASSES


def test_every_class_gets_as_many_directions_where_the_weight_itself_is_approximated(
    build: Build, queries: Queries
) -> None:
    with pytest.raises(FormError, match=f"in steps of {CLASSES}, one for each class"):
        low_rank(build(steps=3), queries(40), queries(40, 2), limits(0.5, rank=CLASSES + 1))


def test_keys_in_8_bits_are_judged_with_the_attention_that_they_give(build: Build, queries: Queries) -> None:
    """At a low temperature rounded keys get a visibly different attention."""
    model = build(temperature=0.005)
    fitted, held_out = queries(40), queries(40, 2)
    found = low_rank(model, fitted, held_out, limits(0.5, rank=40))
    assert found is not None
    assert found.integer is not None
    for features, told, exact in (
        (fitted, found.integer.fitted_error, found.fitted_error),
        (held_out, found.integer.held_out_error, found.held_out_error),
    ):
        assert error_of(model, found.integer.head, features) == pytest.approx(told, rel=1e-3)
        assert told > 10 * exact, "most of the error comes from the attention"


def test_keys_in_8_bits_that_lose_too_much_are_left_out(build: Build, queries: Queries) -> None:
    found = low_rank(build(temperature=0.005), queries(40), queries(40, 2), limits(1e-4))
    assert found is not None
    assert found.integer is None
