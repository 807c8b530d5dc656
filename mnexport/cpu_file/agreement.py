"""Comparison of two ONNX files, before one takes the place of the other."""

from pathlib import Path

import numpy as np

from mnexport.parity.runners import onnxruntime_runner
from mnexport.signature import ExportSignature

_COUNTS = (1, 2, 11)
# Difference that rounding in another order may make, as a part of the largest answer of an output.
_ALLOWED = 1e-4


def same_answers(first: Path, second: Path, signature: ExportSignature) -> bool:
    """Compare two files on made-up images: one, a few, and more than the second computes at a time.

    Args:
        first: an ONNX file.
        second: another with the same signature.
        signature: of both.
    """
    runners = [onnxruntime_runner(path, signature) for path in (first, second)]
    for count in _COUNTS:
        images = np.random.default_rng(count).integers(0, 256, (count, *signature.stored_shape), np.uint8)
        answers, others = (runner(images) for runner in runners)
        for name, array in answers.items():
            if not np.allclose(array, others[name], rtol=0, atol=_ALLOWED * max(1.0, float(np.abs(array).max()))):
                return False
    return True
