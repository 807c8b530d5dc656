"""Fill a dictionary without training: keys are features of images, values their classes.

Shapes: images uint8 [N, channels, H, W]; features and keys [S, d]; classes int64 [S]; weight of the head [C, d].
"""

import numpy as np
import torch
from torch import Tensor, nn

from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

CONFIDENCE = 0.9
"""Share of the class in a value."""
STEP_SIZE = 0.3
"""Step size α, as training on PACS learned it."""
_BATCH = 100


@torch.no_grad()
def fill_dictionary(model: MetaNeighborhoods, keys: Tensor, classes: Tensor, weight: Tensor) -> None:
    """Set keys, values, step size, and the weight of the head.

    Args:
        model: model with S entries and C classes; it is changed.
        keys: [S, d].
        classes: class of each key, [S].
        weight: weight of the head, [C, d].
    """
    entries, count = len(keys), len(weight)
    model.head.weight.copy_(weight)
    model.dictionary.keys.copy_(keys)
    values = model.dictionary.value_logits
    values.fill_(np.log((1 - CONFIDENCE) / (count - 1)))
    values[torch.arange(entries), classes] = np.log(CONFIDENCE)
    model.raw_step_size.fill_(STEP_SIZE)


@torch.no_grad()
def features_of(backbone: nn.Module, preprocessing: nn.Module, images: np.ndarray) -> Tensor:
    """Compute the features [N, d] of images, a batch at a time."""
    parts = torch.split(torch.from_numpy(images), _BATCH)
    return torch.cat([backbone(preprocessing(part)) for part in parts])
