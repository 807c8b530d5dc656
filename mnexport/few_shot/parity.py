"""Parity of a few-shot graph with the nearest mean of features in PyTorch.

Shapes: images uint8 [N, channels, H, W]; logits and probabilities [Q, W].
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from mnexport.few_shot.signature import IMAGE, LABELS, SUPPORT
from mnexport.parity.examples import ParityExamples
from mnexport.parity.report import BatchComparison, ParityReport
from mnexport.parity.runners import open_file
from mnexport.parity.tolerance import Answers, Tolerance
from mnexport.signature import ExportSignature
from mntrain.data.images import ImageSet
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.metric import prototype_logits
from mntrain.fewshot.network import FeatureNetwork

_TASKS = ((2, 1), (5, 1), (5, 5))
"""Classes and support images of each."""
_QUERIES = 32


def check_few_shot(
    network: FeatureNetwork, file: Path, signature: ExportSignature, examples: ParityExamples, tolerance: Tolerance
) -> ParityReport:
    """Compare the file with the trained network on tasks of several sizes; failures raise nothing.

    Which images are of one class does not matter to the comparison, so the labels of a task are made up.

    Args:
        network: trained.
        file: in ONNX.
        signature: of the file.
        examples: images.
        tolerance: of logits and probabilities.

    Raises:
        GraphError: ONNX Runtime does not load the file.
    """
    session, images = open_file(file), examples.examples
    assert isinstance(images, ImageSet)
    comparisons = []
    for ways, shots in _TASKS:
        positions = np.resize(np.arange(len(images)), ways * shots + _QUERIES)
        support, queries = np.split(images.images[positions], [ways * shots])
        labels = np.arange(ways * shots, dtype=np.int64) % ways
        feeds = {SUPPORT: signature.as_input(support), LABELS: labels, IMAGE: signature.as_input(queries)}
        logits, probabilities = session.run(["logits", "probabilities"], feeds)
        answers = {"logits": logits, "probabilities": probabilities}
        expected = _expected(network, SupportSet(torch.from_numpy(support), torch.from_numpy(labels), ways), queries)
        errors = {name: np.abs(answers[name].astype(np.float64) - expected[name]) for name in answers}
        comparisons.append(
            BatchComparison(
                what="onnxruntime",
                reference=f"nearest of {ways} means of {shots}",
                tolerance=str(tolerance),
                batch=len(positions),
                examples=len(queries),
                max_error={name: float(values.max()) for name, values in errors.items()},
                argmax_differences=tolerance.other_classes(answers, expected),
                beyond_tolerance=tolerance.beyond(errors, expected),
            )
        )
    return ParityReport(source=f"{examples.source}, in made-up tasks", comparisons=tuple(comparisons))


@torch.inference_mode()
def _expected(network: FeatureNetwork, support: SupportSet, queries: npt.NDArray[np.uint8]) -> Answers:
    known = support._replace(images=network.embed(support.images))
    logits = prototype_logits(known, network.embed(torch.from_numpy(queries)))
    return {"logits": logits.numpy(), "probabilities": logits.softmax(dim=1).numpy()}
