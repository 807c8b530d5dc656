"""Parameter groups of a backbone: what decays, what would be pulled the wrong way by it, and what has no true slope."""

from torch import nn

from mntrain.models.base import ParameterGroup


def backbone_groups(backbone: nn.Module, name: str = "backbone", rate: float = 1.0) -> list[ParameterGroup]:
    """Group the parameters of a backbone; frozen ones are in none.

    Layers name the parameters that weight decay would pull the wrong way in ``without_decay``, such as a similarity
    whose neutral value is the identity, and those that a straight-through rule moves in ``estimated``.

    Args:
        backbone: of a model.
        name: of the group that decays; the others have it before their own.
        rate: factor on the learning rate.
    """
    kept, estimated = (_named_by(backbone, attribute) for attribute in ("without_decay", "estimated"))
    apart = {id(parameter) for parameter in (*kept, *estimated)}
    decayed = tuple(
        parameter for parameter in backbone.parameters() if parameter.requires_grad and id(parameter) not in apart
    )
    groups = [
        ParameterGroup(name=name, parameters=decayed, decay=True, rate=rate),
        ParameterGroup(name=f"{name}_similarity", parameters=kept, decay=False, rate=rate),
        ParameterGroup(name=f"{name}_shape", parameters=estimated, decay=False, rate=rate, estimated=True),
    ]
    return [group for group in groups if group.parameters or group.name == name]


def group_names(backbone: nn.Module, name: str = "backbone") -> tuple[str, ...]:
    """Names of the groups of a backbone, for a training phase."""
    return tuple(group.name for group in backbone_groups(backbone, name))


def _named_by(backbone: nn.Module, attribute: str) -> tuple[nn.Parameter, ...]:
    found = (getattr(module, name) for module in backbone.modules() for name in getattr(module, attribute, ()))
    return tuple(parameter for parameter in found if parameter is not None and parameter.requires_grad)
