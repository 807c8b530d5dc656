"""Models in values of JSON, as the page lists them and asks for inputs."""

from __future__ import annotations

from typing import Any, Final

from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.console.kinds import image_input, table_layout
from mnserve.models.catalogue import Endpoint, ModelState
from mnserve.predicting.explanations import EXPLANATION, stated_finding
from mnserve.predicting.row_answers import ROW_EXPLANATION
from mnserve.text.names import printable

_KNOWN_VALUES: Final = 50
"""Most categories of a column that the page suggests."""


def describe_state(state: ModelState) -> dict[str, Any]:
    """Describes the state of one version of a model."""
    return {
        "name": state.name,
        "version": state.version,
        "ready": state.ready,
        "reason": printable(state.reason),
        "loaded": state.loaded,
    }


def describe(state: ModelState) -> dict[str, Any]:
    """Describes one version of a model; one that is not served has its state alone."""
    plain = describe_state(state)
    return plain if state.served is None else plain | _served(state.served)


def _served(endpoint: Endpoint) -> dict[str, Any]:
    config, signature = endpoint.config, endpoint.signature
    outputs = {output.name for output in config.output}
    plain: dict[str, Any] = {
        "platform": config.platform or config.backend,
        "max_batch_size": signature.max_batch_size,
        "inputs": [_tensor(signature, rule) for rule in (*signature.inputs, *signature.optional_inputs)],
        "outputs": [_tensor(signature, rule) for rule in signature.outputs],
        "kind": "tensors",
        "explains": False,
        "finding": stated_finding(config),
        "keeps_answers": config.response_cache.enable,
    }
    image, layout = image_input(config), table_layout(config)
    if layout is not None:
        columns: list[dict[str, Any]] = [{"name": name, "values": None} for name in layout.numbers]
        columns += [{"name": name, "values": values[:_KNOWN_VALUES]} for name, values in layout.categories.items()]
        explains = outputs.issuperset(ROW_EXPLANATION) or outputs.issuperset(EXPLANATION)
        plain |= {"kind": "rows", "columns": columns, "targets": layout.targets, "explains": explains}
    elif image is not None:
        size = {"channels": image.size.channels, "height": image.size.height, "width": image.size.width}
        plain |= {"kind": "images", "image": size, "explains": outputs.issuperset(EXPLANATION)}
    return plain


def _tensor(signature: RequestSignature, rule: TensorRule) -> dict[str, Any]:
    shape = None if rule.any_shape else signature.full_shape(rule)
    return {"name": rule.name, "datatype": rule.datatype.name, "shape": shape, "optional": rule.optional}
