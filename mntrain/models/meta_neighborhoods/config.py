"""Settings of the Meta-Neighborhoods family."""

from dataclasses import dataclass
from typing import Literal

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.layers.attention import SIMILARITIES, Similarity
from mntrain.layers.heads import HEAD_KINDS, HeadKind

KeyInit = Literal["normal", "uniform"]
ValueKind = Literal["learned", "fixed"]
DictionaryInit = Literal["paper", "data"]
HeadStart = Literal["random", "logistic"]
KeySource = Literal["centers", "examples"]
EntryShare = Literal["class_size", "even"]
DropoutMode = Literal["per_sample", "per_batch"]
StepSizeForm = Literal["scalar", "per_feature", "per_parameter"]
Rate = Literal["auto"] | float


@dataclass(frozen=True, kw_only=True)
class MetaNeighborhoodsConfig:
    """Dictionary and inner step (defaults: the paper's appendix A.2 and its authors' code).

    Args:
        entries: S, learned neighbors in the dictionary.
        init: start of the dictionary. paper draws keys and values at random; data trains the network alone for warm_up,
            and then takes keys and values from training examples, and α from start_change.
        warm_up: of init data. Below 1 a share of the epochs, from 1 on a number of epochs; null is 0.75 for classes,
            and 0 where training.start names a trained network or the targets are values, whose keys are rows.
        key_source: of init data. centers are those of k-means among the examples of each class, examples are drawn.
        entries_by: of init data. class_size gives a class entries by its share of the examples, even all alike.
        confidence: of init data. Share of an entry's class among its initial values.
        start_change: of init data. Mean relative change of the adapted weights that α is set for; null is 0.2 for
            classes, whose head alone is adapted, and 0.01 for values, where all layers are.
        head_start: of init data and a dot head. logistic gives the head the weights of converged logistic regression on
            the features, its penalty chosen on a fifth of the training examples; random leaves it as it is trained.
        head_rate: factor on the learning rate of the head; 0 keeps it as it starts.
        similarity: cosine, euclidean (negative squared distance) or distance (negative Euclidean distance).
        temperature: T of the attention; smaller is peakier, 1/T of 3 to 7 works best with cosines.
        key_init: normal draws keys with deviation key_std, uniform from −key_range to key_range.
        key_std: standard deviation of normal initial keys.
        key_range: reach of uniform initial keys.
        values: learned (a softmax of free logits), or fixed (each entry one class, drawn at random and kept).
        value_logit_std: standard deviation of the initial value logits.
        dropout: share of entries dropped at random while training.
        dropout_mode: per_sample draws a mask for every query, per_batch one subset for the batch (cheaper).
        steps: inner gradient steps, all on the same attention (the paper uses 1, and 3 in an ablation).
        step_size: initial value of the inner step size α, of init paper.
        learn_step_size: whether α is learned; otherwise it stays as it is.
        step_size_form: scalar, per_feature (one for each feature) or per_parameter (one for each weight).
        head: cosine or dot (dot product with bias).
        scale: initial value of the learned scale τ of the cosine logits.
        value_rate: factor on the learning rate of the values; auto finds one, at least 1, at which AdamW can move
            logits by 5 in the run (from uniform to above 0.9 of 10 classes), and standardised targets by 1.
        step_size_rate: factor on the learning rate of α; auto finds one at which AdamW can move α by 1. Both are slow
            to move at the rate of the network, and short trainings end before they have gone far.
        auxiliary: λ, weight of the loss of a second head that is never adapted and trains the features alone (eq. 14
            of the earlier paper, which uses 1); 0 has no such head.
    """

    entries: int = 1000
    init: DictionaryInit = "paper"
    warm_up: float | None = None
    key_source: KeySource = "centers"
    entries_by: EntryShare = "class_size"
    confidence: float = 0.99
    start_change: float | None = None
    head_start: HeadStart = "random"
    head_rate: float = 1.0
    similarity: Similarity = "cosine"
    temperature: float = 0.2
    key_init: KeyInit = "normal"
    key_std: float = 0.05
    key_range: float = 2.0
    values: ValueKind = "learned"
    value_logit_std: float = 0.1
    dropout: float = 0.5
    dropout_mode: DropoutMode = "per_sample"
    steps: int = 1
    step_size: float = 0.05
    learn_step_size: bool = True
    step_size_form: StepSizeForm = "scalar"
    head: HeadKind = "cosine"
    scale: float = 10.0
    value_rate: Rate = 1.0
    step_size_rate: Rate = 1.0
    auxiliary: float = 0.0

    def __post_init__(self) -> None:
        def refuse(field: str, limit: str) -> ConfigError:
            return ConfigError(f"meta_neighborhoods.{field} is {getattr(self, field)!r}; it must be {limit}.")

        require_finite("meta_neighborhoods", self)
        if self.entries < 1:
            raise refuse("entries", "at least 1 (the paper uses 5000 for 10 classes)")
        if not self.temperature > 0:
            raise refuse("temperature", "above 0 (the paper uses 0.2)")
        if not 0 <= self.dropout < 1:
            raise refuse("dropout", "at least 0 and below 1 (the paper uses 0.5)")
        if not 1 <= self.steps <= 10:
            raise refuse("steps", "from 1 to 10 (the paper uses 1)")
        choices: dict[str, tuple[str, ...]] = {
            "similarity": SIMILARITIES,
            "dropout_mode": ("per_sample", "per_batch"),
            "step_size_form": ("scalar", "per_feature", "per_parameter"),
            "head": HEAD_KINDS,
            "key_init": ("normal", "uniform"),
            "values": ("learned", "fixed"),
            "init": ("paper", "data"),
            "key_source": ("centers", "examples"),
            "entries_by": ("class_size", "even"),
            "head_start": ("random", "logistic"),
        }
        for field, known in choices.items():
            if getattr(self, field) not in known:
                raise refuse(field, f"{', '.join(known[:-1])} or {known[-1]}")
        for field in ("key_std", "key_range", "value_logit_std", "scale"):
            if not getattr(self, field) > 0:
                raise refuse(field, "above 0")
        for field in ("value_rate", "step_size_rate"):
            rate = getattr(self, field)
            if rate != "auto" and (isinstance(rate, str) or not rate > 0):
                raise refuse(field, "auto or a number above 0")
        if not 0 <= self.head_rate <= 1000:
            raise refuse("head_rate", "from 0 (the head stays as it starts) to 1000 (1 is usual)")
        if self.head_start == "logistic" and (self.init, self.head) != ("data", "dot"):
            raise ConfigError(
                f"meta_neighborhoods.head_start is 'logistic', but meta_neighborhoods.init is {self.init!r} and "
                f"meta_neighborhoods.head {self.head!r}; set them to data and dot, or leave head_start out."
            )
        if not 0 <= self.step_size <= 1000:
            raise refuse("step_size", "from 0 to 1000 (0.05 is the start the authors use)")
        if self.warm_up is not None and not (0 <= self.warm_up < 1 or self.warm_up == int(self.warm_up) >= 1):
            raise refuse("warm_up", "a share of the epochs (at least 0 and below 1), or a whole number of epochs")
        if not 0 < self.confidence < 1:
            raise refuse("confidence", "above 0 and below 1 (0.99 is usual)")
        if self.start_change is not None and not 0 < self.start_change <= 10:
            raise refuse("start_change", "above 0 and at most 10, the relative change of the weights (0.2 is usual)")
        if not 0 <= self.auxiliary <= 1000:
            raise refuse("auxiliary", "from 0 (no auxiliary head) to 1000 (the paper uses 1)")

    @property
    def first_step_size(self) -> float:
        """α of an untrained model: 0 where it is set with the start from data, so that nothing is adapted before."""
        return 0.0 if self.init == "data" else self.step_size
