"""Real images nearest to learned neighbors (Fig. 9 and 10)."""

from mntrain.analysis.neighbors import nearest_images
from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, Strip, picture


def neighbors_section(subject: ReportInput, test: Observed) -> Section | None:
    """Strips of test images around the entries that get most attention; None without entries or images."""
    model = subject.adaptive
    if model is None or test.features is None or test.attention is None or test.images is None:
        return None
    found = nearest_images(model, test.features, test.attention)
    names, pixels, labels = subject.labels, test.images, test.examples.targets
    strips = tuple(
        Strip(
            label=f"entry {one.entry}: {names[one.entry_class]}, {one.certainty:.0%}",
            pictures=tuple(
                picture(
                    pixels,
                    index,
                    f"test image {test.indices[index]}, {names[labels[index]]}",
                    "right" if labels[index] == one.entry_class else "wrong",
                )
                for index in one.images
            ),
        )
        for one in found
    )
    classes = len({one.entry_class for one in found})
    shown = [labels[index] == one.entry_class for one in found for index in one.images]
    agree = sum(bool(one) for one in shown) / len(shown)
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
        numbers={"entries_shown": len(found), "share_of_entry_class": agree},
    )
