"""Reading of the test images that a feature store keeps beside their features."""

from __future__ import annotations

from safetensors import SafetensorError
from safetensors.numpy import load_file

from mntrain.data.feature_origin import FeatureSamples
from mntrain.errors import DataError
from mntrain.feature_store.store import SAMPLES, FeatureStore
from mntrain.regular_files import regular


def read_samples(store: FeatureStore) -> FeatureSamples | None:
    """Read the sample images of a store, their labels and features; None where it has none.

    Raises:
        DataError: the file is damaged, or is not of this store.
    """
    file = store.path / SAMPLES
    if not file.exists():
        return None
    try:
        arrays = load_file(str(regular(file)))
        samples = FeatureSamples(images=arrays["images"], labels=arrays["labels"], features=arrays["features"])
    except (OSError, SafetensorError, KeyError) as error:
        raise DataError(f"{file} is damaged ({error}); write the store again.") from error
    width = samples.features.shape[1]
    if width != store.features or samples.labels.min() < 0 or samples.labels.max() >= store.classes:
        raise DataError(
            f"{file} holds {width} features and labels from {samples.labels.min()} to {samples.labels.max()}, but the "
            f"store has {store.features} features and {store.classes} classes; the files are not of one store."
        )
    return samples
