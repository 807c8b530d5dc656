"""Generated labels and the losses on them (MAXL).

Shapes: B batch, C classes, ψ auxiliary classes of each, A = C·ψ. logits [B, A], soft labels t [B, A].
"""

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot


def generated_labels(logits: Tensor, classes: Tensor, hierarchy: int) -> Tensor:
    """Soft labels t [B, A]: a softmax over the ψ auxiliary classes of the true class, 0 elsewhere.

    Args:
        logits: output of the label generator [B, A].
        classes: int64 [B].
        hierarchy: ψ.
    """
    grouped = logits.view(len(logits), -1, hierarchy)
    own = one_hot(classes, grouped.shape[1]).to(logits.dtype)
    return (torch.softmax(grouped, dim=-1) * own.unsqueeze(-1)).flatten(1)


def focal_costs(logits: Tensor, focus: float) -> Tensor:
    """Cost of each label: (1 − p)^γ (−log p), [B, K]."""
    log_p = log_softmax(logits, dim=-1)
    return -((1 - log_p.exp()).pow(focus) * log_p)


def focal_loss(logits: Tensor, targets: Tensor, focus: float) -> Tensor:
    """Mean over the batch [] of Σ t (1 − p)^γ (−log p).

    Args:
        logits: [B, K].
        targets: t [B, K], rows sum to 1.
        focus: γ.
    """
    return (targets * focal_costs(logits, focus)).sum(dim=-1).mean()


def negative_entropy(labels: Tensor) -> Tensor:
    """Negative entropy Σ p̄ log p̄ [] of the mean label p̄ of a batch [B, A]: lowest where all classes are used alike."""
    mean = labels.mean(dim=0)
    return (mean * mean.clamp_min(torch.finfo(mean.dtype).tiny).log()).sum()
