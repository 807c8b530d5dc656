"""The descriptor pool that holds our copy of package ``inference``.

Kept apart from protobuf's default pool so that other libraries with the same protocol import beside us.
"""

from __future__ import annotations

from google.protobuf.descriptor_pool import DescriptorPool

POOL: DescriptorPool = DescriptorPool()
