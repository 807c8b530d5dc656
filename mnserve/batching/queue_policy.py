"""Rules of a request queue: priority levels, and how many requests of each may wait for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class QueuePolicy:
    """Limits of the requests of one priority level.

    Attributes:
        max_requests: Most requests that may wait; 0 is no limit.
        timeout: Seconds that each request may wait; 0 is no limit.
        delay_late: Put a request that waited longer behind the others of its level instead of refusing it.
        allow_override: Let a request ask for a shorter time.
    """

    max_requests: int = 0
    timeout: float = 0.0
    delay_late: bool = False
    allow_override: bool = False

    @property
    def limits_waiting(self) -> bool:
        """True if the time that a request brings is one in the queue, and not one until the answer."""
        return self.timeout > 0 or self.allow_override

    def max_wait(self, asked: float = 0.0) -> float:
        """Resolves the seconds that a request may wait; 0 is no limit.

        Args:
            asked: Seconds that the request asks for; 0 where it asks for nothing.
        """
        if not asked or not self.allow_override:
            return self.timeout
        return min(asked, self.timeout) if self.timeout else asked


@dataclass(frozen=True, kw_only=True)
class QueueRules:
    """Policies of all priority levels.

    Attributes:
        levels: Number of priority levels, of which 1 goes first; 0 where all requests are equal.
        default_level: Level of requests that name none.
        default_policy: Policy of levels without one of their own.
        policies: Level -> policy.
    """

    levels: int = 0
    default_level: int = 0
    default_policy: QueuePolicy = field(default_factory=QueuePolicy)
    policies: Mapping[int, QueuePolicy] = field(default_factory=dict)

    def policy(self, level: int) -> QueuePolicy:
        """Finds the policy of one level."""
        return self.policies.get(level, self.default_policy)

    @cached_property
    def policy_by_default(self) -> QueuePolicy:
        """Policy of requests that name no level."""
        return self.policy(self.default_level)

    @property
    def max_requests(self) -> int:
        """Most requests that may wait at all levels with a limit together."""
        others = max(1, self.levels) - len(self.policies)
        return others * self.default_policy.max_requests + sum(policy.max_requests for policy in self.policies.values())
