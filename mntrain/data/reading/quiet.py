"""Keep ``datasets`` from printing, since errors are told in our own messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mntrain.data.hugging_face import datasets


@contextmanager
def quiet_datasets() -> Iterator[None]:
    """Silence the bars and log lines of ``datasets`` while the block runs."""
    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in ("datasets", "huggingface_hub")}
    bars = datasets.are_progress_bars_disabled()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)
        if not bars:
            datasets.enable_progress_bars()
