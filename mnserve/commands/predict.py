"""``mnserve predict``: image files in, labelled predictions out."""

from __future__ import annotations

from mnserve.predicting.settings import PredictSettings


def run(settings: PredictSettings) -> int:
    """Predicts every file that can be predicted and reports the others on standard error.

    Returns:
        0 when every file was predicted, 1 otherwise.

    Raises:
        MnServeError: the model cannot be had, does not take images, or a page cannot be written.
    """
    from mnserve.predicting.session import predict  # loads the engine and gRPC, which --help can do without

    return predict(settings)
