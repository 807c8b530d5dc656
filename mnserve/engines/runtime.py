"""ONNX Runtime, without its reports of usage. All modules import it from here.

From version 1.29 on it writes an identity of the device under the user's cache folder while it is imported, and sends
names of files and graphs to its maker. A variable switches that off, and only if it is set before the import.
"""

from __future__ import annotations

import os
from typing import Final

TELEMETRY_VARIABLE: Final = "ORT_DISABLE_TELEMETRY"
"""``1`` by default; a user who wants the reports sets ``0``."""

if not os.environ.get(TELEMETRY_VARIABLE):
    os.environ[TELEMETRY_VARIABLE] = "1"

import onnxruntime as onnxruntime  # noqa: E402
