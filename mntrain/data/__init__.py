"""Where images come from, how they are split, augmented on the device, and put into batches."""

from mntrain.data.config import DataConfig
from mntrain.data.images import ImageData, ImageSet, SplitRecord
from mntrain.data.sources import load_images

__all__ = ["DataConfig", "ImageData", "ImageSet", "SplitRecord", "load_images"]
