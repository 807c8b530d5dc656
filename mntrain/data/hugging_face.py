"""Hugging Face ``datasets``, without its reports of usage. All modules import it from here.

The hub is told versions of libraries with every request, unless a variable is set before the import.
"""

from __future__ import annotations

import os

# A user who wants the reports sets 0.
if not os.environ.get("HF_HUB_DISABLE_TELEMETRY"):
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import datasets as datasets
from datasets.exceptions import DatasetNotFoundError as DatasetNotFoundError
from datasets.exceptions import DatasetsError as DatasetsError
