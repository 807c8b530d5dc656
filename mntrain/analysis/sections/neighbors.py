"""Section of test images nearest to learned neighbors (Fig. 9 and 10)."""

from mntrain.analysis.neighbors import nearest_images
from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, Strip, picture


def neighbors_section(report_input: ReportInput, test: Observed) -> Section | None:
    """Show test images around the entries that get most attention; None without entries or images."""
    model = report_input.adaptive
    if model is None or test.features is None or test.attention is None or test.images is None:
        return None
    rows = nearest_images(model, test.features, test.attention)
    names, pixels, labels = report_input.labels, test.images, test.examples.targets
    strips = tuple(
        Strip(
            label=f"entry {row.entry}: {names[row.entry_class]}, {row.certainty:.0%}",
            pictures=tuple(
                picture(
                    pixels,
                    index,
                    f"test image {test.indices[index]}, {names[labels[index]]}",
                    "right" if labels[index] == row.entry_class else "wrong",
                )
                for index in row.images
            ),
        )
        for row in rows
    )
    classes = len({row.entry_class for row in rows})
    agreements = [labels[index] == row.entry_class for row in rows for index in row.images]
    agree = sum(bool(agreement) for agreement in agreements) / len(agreements)
    return Section(
        anchor="neighbors",
        title="Images nearest to learned neighbors",
        text=(
            f"For the entries of {classes} of {len(names)} classes that get most attention, the nearest of "
            f"{len(test.images):,} test images by the model's own similarity, nearest first. The class of an entry is "
            "where its value is largest, with the share of the value that it has; ✓ marks images of that class, "
            f"{agree:.1%} of those shown (Fig. 9 and 10 of the paper).",
        ),
        strips=strips,
        numbers={"entries_shown": len(rows), "share_of_entry_class": agree},
    )
