"""Features of a data set, from the options of a command to a finished store.

Shapes: N images, M samples, C channels, H height, W width, d features.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.split_record import SPLITS
from mntrain.data.summary.summarize import summarize
from mntrain.feature_store.class_match import match_classes
from mntrain.feature_store.computing import FeatureComputation, ViewPlan
from mntrain.feature_store.data_choice import choose_augmentation, choose_data, load_chosen
from mntrain.feature_store.key import store_key, view_settings
from mntrain.feature_store.partial_store import PartialStore, check_place, writing_lock
from mntrain.feature_store.report import FeaturesReport
from mntrain.feature_store.store import open_store
from mntrain.feature_store.writing import StoreContent
from mntrain.networks.opening import open_named, tell
from mntrain.networks.options import NetworkOptions
from mntrain.run_progress import RunProgress

_SAMPLES = 256
_SAMPLE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """Network, data and place of features.

    Args:
        network: that computes them.
        store: folder to write.
        data: fields of ``DataConfig`` that are given.
        augmentation: fields of ``AugmentationConfig`` that are given, for several views.
        batch: images computed at a time.
        crops: views of each training image.
        seed: of their augmentation.
        overwrite: replace a store of something else.
        quiet: print no progress.
    """

    network: NetworkOptions
    store: Path
    data: Mapping[str, Any] = field(default_factory=dict)
    augmentation: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 64
    crops: int = 1
    seed: int = 0
    overwrite: bool = False
    quiet: bool = True


def write_features(options: FeatureOptions) -> FeaturesReport:
    """Compute the features of all splits; a store that was begun is gone on with, a finished one stays as it is.

    Splits are those of a training with the same configuration of the data.

    Raises:
        ConfigError: there is no such network, options do not fit, or the folder holds something else.
        ArtifactError: the artifact is damaged, or takes rows.
        DataError: images or weights are missing or damaged, a feature is not finite, or the folder cannot be written.
    """
    opened = open_named(options.network)
    config = choose_data(opened, options.data)
    plan = ViewPlan(
        batch=options.batch,
        crops=options.crops,
        seed=options.seed,
        augmentation=choose_augmentation(opened, options.augmentation),
    )
    data = load_chosen(config)
    fit = config.image_fit if config.image_size is not None else None
    network = opened.for_images((data.channels, data.height, data.width), fit)
    views = view_settings(plan.crops, plan.seed, plan.batch, plan.augmentation) if plan.crops > 1 else None
    key = store_key(network.record, config, data.split.sha256, views)
    classifier, words = match_classes(network, data.label_names)
    path = options.store.resolve()
    with writing_lock(path):
        if check_place(path, key, overwrite=options.overwrite):
            return FeaturesReport.of(open_store(path), words)
        work = FeatureComputation(network, data, plan)
        labels = {name: np.tile(data.part(name).labels, plan.views(name)) for name in SPLITS}
        store = PartialStore(path, key, labels, network.record.features)
        resumed, started = sum(store.done(name) for name in SPLITS), time.perf_counter()
        with RunProgress(
            sum(work.rows.values()), finished=resumed, quiet=options.quiet, noun="rows of features"
        ) as progress:
            try:
                computed = work.fill(store, progress)
            finally:
                store.save()
        seconds = time.perf_counter() - started
        record = summarize(data, config)
        splits = store.splits()
        samples, positions = sample_images(data)
        store.finish(
            StoreContent(
                network=network.record,
                label_names=data.label_names,
                splits=splits,
                crops=plan.crops,
                classifier=classifier,
                data={"config": config.to_dict(), "split": data.split.to_json(), "summary": record, "key": key},
                samples=samples,
                sample_features=np.ascontiguousarray(splits["test"].features[positions]),
            )
        )
    if not options.quiet:
        for warning in record["warnings"]:
            tell(f"{warning.rstrip('.')}")
    return FeaturesReport.of(open_store(path), words, computed=computed, seconds=seconds)


def sample_images(data: ImageData) -> tuple[ImageSet, IndexArray]:
    """Choose at most 256 test images, and at most 64 MiB, spread over the split; returns them and their positions."""
    count = max(1, min(_SAMPLES, len(data.test), _SAMPLE_BYTES // data.test.images[0].nbytes))
    positions = np.linspace(0, len(data.test) - 1, count).astype(np.int64)
    return data.test.select(positions), positions
