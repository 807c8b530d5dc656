"""Ray and Ray Serve, without their reports of usage. All modules import them from here.

The dashboard of a cluster sends a report of its machines and libraries every hour, unless a variable says otherwise
before the cluster starts. That reaches clusters that this process starts; others have the variable of their own start.
"""

from __future__ import annotations

import os
from typing import Final

USAGE_VARIABLE: Final = "RAY_USAGE_STATS_ENABLED"
"""``0`` by default; a user who wants the reports sets ``1``."""

if not os.environ.get(USAGE_VARIABLE):
    os.environ[USAGE_VARIABLE] = "0"

import ray as ray  # noqa: E402
from ray import serve as serve  # noqa: E402
