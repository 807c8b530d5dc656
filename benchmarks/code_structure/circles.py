"""Circles of a directed graph: its strongly connected components of two nodes or more."""

from collections.abc import Collection, Mapping


def find_circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Finds the groups of nodes that all reach one another, each sorted, by Kosaraju's two passes.

    Args:
        graph: node -> nodes that its edges lead to.
    """
    nodes = sorted({*graph, *(end for ends in graph.values() for end in ends)})
    reverse: dict[str, set[str]] = {node: set() for node in nodes}
    for start, ends in graph.items():
        for end in ends:
            reverse[end].add(start)
    finished: list[str] = []
    seen: set[str] = set()
    for node in nodes:
        finished += _finished_from(node, graph, seen)
    assigned: set[str] = set()
    groups = [sorted(_finished_from(node, reverse, assigned)) for node in reversed(finished)]
    return sorted(group for group in groups if len(group) > 1)


def _finished_from(start: str, graph: Mapping[str, Collection[str]], seen: set[str]) -> list[str]:
    """Nodes that are reached from ``start`` and not ``seen`` yet, in the order in which depth-first search ends them.

    Args:
        seen: grows by these nodes.
    """
    if start in seen:
        return []
    seen.add(start)
    finished: list[str] = []
    path = [(start, iter(sorted(graph.get(start, ()))))]
    while path:
        node, ends = path[-1]
        end = next((end for end in ends if end not in seen), None)
        if end is None:
            finished.append(node)
            path.pop()
        else:
            seen.add(end)
            path.append((end, iter(sorted(graph.get(end, ())))))
    return finished
