"""The library ``huggingface_hub``, without its reports of usage. All modules import it from here.

The hub is told versions of libraries with every request, unless a variable is set before the import.
``mntrain.data.hugging_face`` does the same for ``datasets``.
"""

from __future__ import annotations

import os
from typing import Final

# A user who wants the reports sets 0.
if not os.environ.get("HF_HUB_DISABLE_TELEMETRY"):
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

from huggingface_hub import CommitOperationAdd as CommitOperationAdd
from huggingface_hub import CommitOperationDelete as CommitOperationDelete
from huggingface_hub import EvalResult as EvalResult
from huggingface_hub import HfApi as HfApi
from huggingface_hub import ModelCard as ModelCard
from huggingface_hub import ModelCardData as ModelCardData
from huggingface_hub import constants as constants
from huggingface_hub import get_token as get_token
from huggingface_hub import scan_cache_dir as scan_cache_dir
from huggingface_hub import snapshot_download as snapshot_download
from huggingface_hub.errors import CacheNotFound as CacheNotFound
from huggingface_hub.errors import GatedRepoError as GatedRepoError
from huggingface_hub.errors import HfHubHTTPError as HfHubHTTPError
from huggingface_hub.errors import HFValidationError as HFValidationError
from huggingface_hub.errors import OfflineModeIsEnabled as OfflineModeIsEnabled
from huggingface_hub.errors import RepositoryNotFoundError as RepositoryNotFoundError
from huggingface_hub.errors import RevisionNotFoundError as RevisionNotFoundError
from huggingface_hub.utils.tqdm import disable_progress_bars as disable_progress_bars

# The library reads the variable once, and another package may have imported it before this module has set it.
if os.environ["HF_HUB_DISABLE_TELEMETRY"].lower() in ("1", "on", "yes", "true"):
    constants.HF_HUB_DISABLE_TELEMETRY = True

_ERROR_OF_CLIENT: Final[type[Exception]] = HfHubHTTPError.__mro__[1]
TRANSPORT_ERRORS: Final[tuple[type[Exception], ...]] = (_ERROR_OF_CLIENT, OSError)
"""Errors of a request without an answer: those of the library's HTTP client, whichever its version uses."""
REQUEST_ERRORS: Final[tuple[type[Exception], ...]] = (*TRANSPORT_ERRORS, ValueError, KeyError, RuntimeError)
"""Errors of a request without an answer, or with one that the library cannot read."""
