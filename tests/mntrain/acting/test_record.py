"""The record as it is stored, and its sentences."""

from dataclasses import replace

import numpy as np
import pytest

from mntrain.acting.faithfulness import Faithfulness
from mntrain.acting.labels import answer_agreement, entry_consistency
from mntrain.acting.record import AdaptationRecord, NamedExamples
from mntrain.training.evaluation import ACCURACY, MSE

RECORD = AdaptationRecord(examples=100, weight_change=0.031, answer_change=0.004, gain=0.0005)
FAITHFULNESS = Faithfulness(
    measure="comprehensiveness", answers=100, left_out=3, draws=3, named=0.02, random=0.0, named_size=0.021,
    random_size=0.001, whole=0.05, whole_size=0.07, attention=0.12, further=0.98, curve_left_out=(1, 3),
    curve_named=(0.01, 0.021), curve_random=(0.0005, 0.001),
)  # fmt: skip
NOISE = entry_consistency(np.arange(20) % 2, (np.arange(20) // 2 % 2)[:, None], examples=20)
CLEAR = entry_consistency(np.arange(20) % 2, (np.arange(20) % 2)[:, None], examples=20)


def test_shares_against_chance_by_hand() -> None:
    entries, found = np.array([0, 1, 2]), np.array([[0, 0], [1, 2], [2, 0]])
    consistency = entry_consistency(entries, found, examples=50)
    chance = (2 / 6) * (3 / 6) + (2 / 6) * (1 / 6) + (2 / 6) * (2 / 6)
    assert (consistency.nearest, consistency.examples) == (2, 50)
    assert consistency.share == pytest.approx(4 / 6)
    assert consistency.chance == pytest.approx(chance)
    assert consistency.kappa == pytest.approx((4 / 6 - chance) / (1 - chance))
    agreement = answer_agreement(entries, found)
    assert (agreement.share, agreement.kappa, agreement.answers) == (consistency.share, consistency.kappa, 3)
    assert entry_consistency(np.zeros(4, int), np.zeros((4, 1), int), examples=4).is_noise, "one class tells nothing"


def test_a_dictionary_that_does_not_act_says_what_to_change() -> None:
    idle, meaningless = replace(RECORD, consistency=NOISE).verdicts()
    assert "hardly acts" in idle
    assert "--meta_neighborhoods.init data" in idle
    assert "mean little" in meaningless
    assert "by chance 50.0%" in meaningless
    assert "--meta_neighborhoods.init data" in meaningless
    (started,) = replace(RECORD, consistency=CLEAR).verdicts()
    assert "start the entries" not in started, "they lie on the data already"
    assert "start_change" in started
    (fitted,) = replace(RECORD, consistency=CLEAR, corrected=1, broken=0, training_score=0.999).verdicts()
    assert "99.9% of its training examples" in fitted
    assert "augmentation" in fitted
    assert replace(RECORD, answer_change=0.1, consistency=CLEAR, faithfulness=FAITHFULNESS).verdicts() == []


def test_named_neighbors_that_matter_no_more_than_random_ones_explain_little() -> None:
    part = replace(FAITHFULNESS, random_size=0.02)
    (verdict,) = replace(RECORD, answer_change=0.1, faithfulness=part).verdicts()
    assert "mean little" in verdict
    assert "temperature" in verdict


def test_the_record_is_read_as_it_was_written() -> None:
    record = replace(
        RECORD,
        corrected=3,
        broken=1,
        consistency=CLEAR,
        agreement=answer_agreement(np.array([0, 1]), np.array([[1], [1]])),
        faithfulness=FAITHFULNESS,
        neighbors=NamedExamples(answers=(4, 9), nearest=((1, 2), (3,))),
    )
    assert AdaptationRecord.from_metrics({"adaptation": record.to_json()}) == record
    assert AdaptationRecord.from_metrics({"adaptation": None}) is None
    assert AdaptationRecord.from_metrics({}) is None


def test_the_record_of_an_earlier_version_is_read() -> None:
    agreement = {"examples": 50, "nearest": 3, "share": 0.5, "chance": 0.1, "kappa": 0.4}
    stored = {"examples": 9, "weight_change": 0.1, "answer_change": 0.2, "gain": None, "agreement": agreement}
    record = AdaptationRecord.from_metrics({"adaptation": stored})
    assert record is not None
    assert record.consistency is not None
    assert (record.consistency.share, record.agreement, record.faithfulness) == (0.5, None, None)


def test_words_fit_the_metric() -> None:
    assert RECORD.describe(ACCURACY) == (
        "adaptation changes the weights of the classifier by 3.1%; 0.4% of the answers change, accuracy +0.05%"
    )
    assert replace(RECORD, corrected=1200, broken=3).describe(ACCURACY).endswith("+0.05% (1,200 corrected, 3 broken)")
    assert RECORD.describe(MSE) == (
        "adaptation changes the weights of the network by 3.1%; answers move by 0.004 deviations of the target, "
        "mse +0.0005"
    )
    agreement = answer_agreement(np.array([0, 1]), np.array([[1], [1]]))
    record = replace(RECORD, consistency=CLEAR, agreement=agreement, faithfulness=FAITHFULNESS)
    assert record.describe_neighbors() == [
        "neighbors: 100.0% of the training examples nearest to an entry have its class (by chance 50.0%), "
        "50.0% of the 1 largest neighbors of an answer have its class (by chance 50.0%)",
        "faithfulness: without its 3 largest neighbors (12.0% of the attention) an answer moves by 2.1 points of "
        "probability, 30% of the effect of adaptation; without random ones by 0.1 points of probability",
    ]
    assert RECORD.describe_neighbors() == []
