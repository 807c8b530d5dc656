"""Settings of neural similarity in the convolutions of a backbone."""

from dataclasses import dataclass
from typing import Literal

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.layers.similarity.sphere import Measure, Normalise

Mode = Literal["none", "static", "dynamic", "sphere"]
Kind = Literal["diagonal", "unconstrained"]
GlobalMode = Literal["none", "static", "dynamic", "attention"]
_MOST_HIDDEN = 4096


@dataclass(frozen=True, kw_only=True)
class SimilarityConfig:
    """Similarity of patch and filter, in place of their inner product (Neural Similarity Learning).

    It acts in every convolution but the first whose kernel has more than one tap.

    Args:
        mode: none for ordinary convolutions; static learns one matrix M for each layer, which is folded into the kernel
            at export; dynamic predicts M from every patch; sphere divides by the norms of patch and filter.
        kind: diagonal (DNS, k² numbers) or unconstrained (UNS, k⁴ numbers).
        predictor: network that predicts M; sphere divides its first answers by the norms of the patches, plain does
            not.
        normalise: norms that sphere convolutions divide by; input for those of patches, both for filters, too.
        measure: function of the cosine that sphere convolutions answer: cosine, linear or sigmoid, the last two with
            normalise both.
        hidden: hidden channels of the predictor; 0 takes the paper's, 64 for diagonal and 128 for unconstrained.
        second_kernel: side of the predictor's second kernel, odd.
        residual: add the identity to what is predicted.
        shared: one predictor for all layers, behind a convolution of 1×1 in each of them that brings its maps to as
            many channels as there are hidden ones; normalisation is each layer's own.
        kernel_shape: learn a Boolean mask D of the taps as well, M = D R.
        shape_threshold: α; taps whose real-valued score is higher stay. All scores start at 1.
        shape_keep: most taps that stay, those of the highest scores; 0 for any number, 1 makes a network of shifts.
        shape_penalty: factor of the ℓ1 norm of the scores in the loss, with kernel_shape.
        orthogonality: factor of ‖ŵ ŵᵀ − I‖² in the loss, over the normalised filters of sphere predictors and layers.
        across_map: similarity of whole maps after poolings: none, static, dynamic (a product of two maps of 1×1
            convolutions) or attention (its softmax).
    """

    mode: Mode = "none"
    kind: Kind = "diagonal"
    predictor: Literal["sphere", "plain"] = "sphere"
    normalise: Normalise = "input"
    measure: Measure = "cosine"
    hidden: int = 0
    second_kernel: int = 3
    residual: bool = True
    shared: bool = False
    kernel_shape: bool = False
    shape_threshold: float = 0.5
    shape_keep: int = 0
    shape_penalty: float = 0.0
    orthogonality: float = 0.0
    across_map: GlobalMode = "none"

    def __post_init__(self) -> None:
        section = "backbone.similarity"
        require_finite(section, self)
        if self.measure != "cosine" and self.normalise != "both":
            raise ConfigError(
                f"{section}.measure is {self.measure!r}, a function of the angle, which takes both norms; set "
                f"{section}.normalise to both."
            )
        if not 0 <= self.hidden <= _MOST_HIDDEN:
            raise ConfigError(
                f"{section}.hidden is {self.hidden}; it must be from 1 to {_MOST_HIDDEN}, or 0 for the paper's."
            )
        if self.second_kernel not in (1, 3, 5, 7):
            raise ConfigError(f"{section}.second_kernel is {self.second_kernel}; it must be 1, 3, 5 or 7.")
        if self.kernel_shape and self.mode not in ("static", "dynamic"):
            raise ConfigError(
                f"{section}.kernel_shape is true, but {section}.mode is {self.mode!r}, which has no similarity to "
                "share the kernel with; set mode to static or dynamic."
            )
        if not self.shape_threshold < 1:
            raise ConfigError(
                f"{section}.shape_threshold is {self.shape_threshold}; scores start at 1, so it must be below 1."
            )
        for name in ("shape_keep", "shape_penalty", "orthogonality"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{section}.{name} is {getattr(self, name)}; it must not be negative.")
        self._refuse_idle(section)

    def _refuse_idle(self, section: str) -> None:
        """Refuse settings that nothing of this mode reads."""
        sphere = self.mode == "sphere" or (self.mode == "dynamic" and self.predictor == "sphere")
        spherical = "sphere, or dynamic with predictor sphere"
        idle = {
            ("shape_threshold", "shape_keep", "shape_penalty"): (self.kernel_shape, "kernel_shape to true"),
            ("kind",): (self.mode in ("static", "dynamic"), "mode to static or dynamic"),
            ("predictor", "hidden", "second_kernel", "residual", "shared"): (
                self.mode == "dynamic",
                "mode to dynamic",
            ),
            ("normalise", "measure", "orthogonality"): (sphere, f"mode to {spherical}"),
        }
        for names, (acts, remedy) in idle.items():
            for name in names:
                if not acts and getattr(self, name) != getattr(SimilarityConfig, name):
                    raise ConfigError(
                        f"{section}.{name} is {getattr(self, name)!r}, which acts on nothing here: {section}.mode is "
                        f"{self.mode!r}, predictor {self.predictor!r}, kernel_shape {self.kernel_shape}; leave it out, "
                        f"or set {section}.{remedy}."
                    )

    @property
    def active(self) -> bool:
        """True where layers differ from those of an ordinary network."""
        return self.mode != "none" or self.across_map != "none"

    @property
    def hidden_channels(self) -> int:
        """Hidden channels of the predictor."""
        return self.hidden or (64 if self.kind == "diagonal" else 128)
