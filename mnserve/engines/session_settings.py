"""Settings of a session of ONNX Runtime, beside its providers and threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

GraphLevel: TypeAlias = Literal["none", "basic", "extended", "all"]


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """Memory and optimisation of a session; the defaults are those of ONNX Runtime.

    Attributes:
        graph_level: Optimisations of the graph.
        memory_arena: Keep freed memory of the CPU for later runs.
        memory_pattern: Plan the memory of a run by the runs before it.
        arena_shrinkage: Devices whose kept memory is given back after every run, such as ``cpu:0``; empty for none.
        device_initializers: Allocate weights outside of the arena.
        spinning: Threads without work look for it for a while before they sleep. Runs begin sooner, and other threads
            have less of the CPUs meanwhile.
    """

    graph_level: GraphLevel = "all"
    memory_arena: bool = True
    memory_pattern: bool = True
    arena_shrinkage: str = ""
    device_initializers: bool = False
    spinning: bool = True
