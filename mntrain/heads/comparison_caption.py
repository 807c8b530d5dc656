"""What a table of heads says of itself: what its means are over, and how many classes its groups have."""

from __future__ import annotations

from mntrain.heads.comparison import HeadComparison


def comparison_caption(comparison: HeadComparison) -> str:
    """Tell units, sizes of groups, and how differences are tested where there are several methods."""
    units = comparison.units
    told = f"Test accuracy over {_over(comparison)}, by groups of classes ({_sizes(comparison)})."
    if any(len(values) < len(units.names) for row in comparison.rows for values in row.accuracy.values()):
        told += " A count such as 1 of 2 says how many of them have test rows of a group."
    if len(comparison.rows) > 1:
        kind = "store" if units.are_stores else "seed"
        told += (
            f" Differences to {comparison.baseline} are taken {kind} by {kind}; p is that of a two-sided paired t-test "
            f"over {kind}s, uncorrected and corrected by Holm's method for the number of methods."
            if len(units.names) > 1
            else f" Differences to {comparison.baseline} have no p, which takes several stores."
        )
    if not units.are_stores and len(units.seeds) > 1:
        told += (
            " Seeds vary the draws of the heads alone, on the same rows: deviations and p say nothing of other data, "
            "and a method without draws has the deviation 0."
        )
    return told


def _over(comparison: HeadComparison) -> str:
    units = comparison.units
    stores, seeds = len(units.stores), len(units.seeds)
    if units.are_stores:
        return f"{stores} stores" + (f", each of them the mean of {seeds} seeds" if seeds > 1 else "")
    return f"{seeds} seeds of one store" if seeds > 1 else "one store"


def _sizes(comparison: HeadComparison) -> str:
    """Count the classes of each group, from the least to the most of all stores."""
    sizes = [record["groups"] for record in comparison.records]
    ranges = {group: (min(of[group] for of in sizes), max(of[group] for of in sizes)) for group in sizes[0]}
    counted = ", ".join(
        f"{least} {group}" if least == most else f"{least} to {most} {group}"
        for group, (least, most) in ranges.items()
        if group != "all"
    )
    return f"{counted} of {sizes[0]['all']}"
