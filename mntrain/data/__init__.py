"""Where images and rows come from, how they are split, augmented on the device, and put into batches."""

from mntrain.data.config import DataConfig
from mntrain.data.images import ImageData, ImageSet, SplitRecord
from mntrain.data.sources import load_data, load_images
from mntrain.data.tables import TableData, TableSet

__all__ = ["DataConfig", "ImageData", "ImageSet", "SplitRecord", "TableData", "TableSet", "load_data", "load_images"]
