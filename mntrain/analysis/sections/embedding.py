"""Neighbors and training data in a plane (Fig. 5)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from mntrain.analysis.embedding import Embedding, embed
from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, figure
from mntrain.plotting.style import class_colors, plain

_MOST_IN_LEGEND = 12


def embedding_section(subject: ReportInput, train: Observed) -> Section | None:
    """t-SNE of training features and, where there are any, of keys; None where the model shows no features."""
    if train.features is None:
        return None
    model = subject.adaptive
    found = embed(
        train.features,
        train.labels,
        None if model is None else model.entry_keys(),
        None if model is None else model.entry_values(),
        cosine=model is None or model.similarity == "cosine",
    )
    entries = len(found.entries)
    held = 0 if model is None else len(model.entry_keys())
    with_entries = f" and {entries:,} of {held:,} learned neighbors (+)" if entries else ""
    return Section(
        anchor="embedding",
        title="Neighbors among the training data" if entries else "Training data in two dimensions",
        text=(
            f"t-SNE of the features of {len(found.images):,} of {len(subject.data.train):,} training {subject.nouns} "
            f"(o){with_entries}, coloured by class"
            + (", that of a neighbor being where its value is largest (Fig. 5 of the paper)." if entries else "."),
        ),
        figures=(
            figure(
                "embedding",
                lambda drawing: _draw(drawing, found, subject.labels),
                size=(6.4, 6.0),
                alt=f"Map of {len(found.images)} training {subject.nouns}{with_entries} in {len(subject.labels)} "
                "classes",
                caption="t-SNE; only what lies close together means something",
            ),
        ),
        numbers={"images": len(found.images), "entries": entries},
    )


def _draw(drawing: Drawing, found: Embedding, labels: tuple[str, ...]) -> None:
    axes: Axes = drawing.add_subplot()
    for index, color in enumerate(class_colors(len(labels))):
        mine = found.images[found.image_classes == index]
        named = plain(labels[index], 16) if len(labels) <= _MOST_IN_LEGEND else None
        axes.scatter(
            mine[:, 0], mine[:, 1], s=14, facecolors="none", edgecolors=color, alpha=0.55, linewidths=0.8, label=named
        )
        near = found.entries[found.entry_classes == index]
        axes.scatter(near[:, 0], near[:, 1], s=42, marker="+", color=color, linewidths=1.6)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    if len(labels) <= _MOST_IN_LEGEND:
        drawing.legend(loc="outside lower center", ncols=6, fontsize=9, handletextpad=0.2, columnspacing=1.0)
