"""Signature of a few-shot classifier.

Shapes: K support images, Q images to classify, W classes, each different from request to request.
"""

from dataclasses import replace

from mnexport.repository.input_limits import InputLimits
from mnexport.signature import DataType, ExportSignature, ExportTensor

SUPPORT, LABELS, IMAGE = "support_images", "support_labels", "image"
FEATURES = "features"


def features_signature(images: ExportSignature, features: int) -> ExportSignature:
    """Make the signature of the part that looks at one image.

    Args:
        images: signature of the classifier that the artifact holds.
        features: d.
    """
    output = ExportTensor(name=FEATURES, datatype="FP32", shape=(features,))
    return replace(images, outputs=(output,), labels=None)


def few_shot_signature(images: ExportSignature) -> ExportSignature:
    """Make the signature of the whole graph; a request is one task, so requests are not joined to batches.

    Args:
        images: signature of the classifier that the artifact holds.
    """
    (image,) = images.inputs

    def tensor(name: str, datatype: DataType, *shape: int) -> ExportTensor:
        return ExportTensor(name=name, datatype=datatype, shape=shape)

    return replace(
        images,
        inputs=(
            tensor(SUPPORT, image.datatype, -1, *image.shape),
            tensor(LABELS, "INT64", -1),
            tensor(IMAGE, image.datatype, -1, *image.shape),
        ),
        outputs=(tensor("logits", "FP32", -1, -1), tensor("probabilities", "FP32", -1, -1)),
        labels=None,
        batched=False,
    )


def few_shot_limits(most_rows: int) -> InputLimits:
    """Make the limits of requests: memory grows with all images, and a label is of one of the support images.

    Args:
        most_rows: support images and images to classify of one request.
    """
    return InputLimits(counted=(SUPPORT, IMAGE), most_rows=most_rows, ranges={LABELS: (0, SUPPORT)})
