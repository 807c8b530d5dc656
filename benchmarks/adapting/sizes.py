"""Sizes of the models whose price is measured."""

from dataclasses import dataclass

CALIBRATED = "-calibrated"
"""End of the names of models with the same network and a dictionary that was filled, not trained."""


@dataclass(frozen=True)
class Size:
    """Size of a model that is measured.

    Raises:
        ValueError: fewer than two classes, or fewer entries than classes.
    """

    backbone: str
    classes: int
    entries: int
    ifilm: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= self.entries:
            raise ValueError(
                f"{self.classes} classes and {self.entries} entries do not go together; there are at least 2 classes, "
                "and as many entries"
            )

    @property
    def name(self) -> str:
        """Name of the artifact."""
        return f"{self.network}-{self.classes}-{self.entries}"

    @property
    def network(self) -> str:
        """Name of the network."""
        return self.backbone + ("-ifilm" if self.ifilm else "")


SIZES = (
    Size("convnet4", 10, 5000),
    Size("resnet29", 10, 5000),
    Size("resnet56", 10, 5000),
    Size("resnet56", 10, 5000, ifilm=True),
    Size("resnet56", 100, 10000),
    Size("densenet40bc", 10, 5000),
)
REGRESSION = "mlp-1000"
