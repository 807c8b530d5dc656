"""Section of neighbors and training data in a plane (Fig. 5)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from mntrain.analysis.embedding import Embedding, embed
from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, figure
from mntrain.plotting.style import class_colors, plain

_MOST_IN_LEGEND = 12


def embedding_section(report_input: ReportInput, train: Observed) -> Section | None:
    """Draw t-SNE of training features and, where there are any, of keys; None without features."""
    if train.features is None:
        return None
    model = report_input.adaptive
    embedding = embed(
        train.features,
        train.labels,
        None if model is None else model.entry_keys(),
        None if model is None else model.entry_values(),
        cosine=model is None or model.similarity == "cosine",
    )
    entries = len(embedding.entries)
    all_entries = 0 if model is None else len(model.entry_keys())
    with_entries = f" and {entries:,} of {all_entries:,} learned neighbors (+)" if entries else ""
    return Section(
        anchor="embedding",
        title="Neighbors among the training data" if entries else "Training data in two dimensions",
        text=(
            f"t-SNE of the features of {len(embedding.images):,} of {len(report_input.data.train):,} training "
            f"{report_input.nouns} (o){with_entries}, coloured by class"
            + (", that of a neighbor being where its value is largest (Fig. 5 of the paper)." if entries else "."),
        ),
        figures=(
            figure(
                "embedding",
                lambda drawing: _draw(drawing, embedding, report_input.labels),
                size=(6.4, 6.0),
                alt=f"Map of {len(embedding.images)} training {report_input.nouns}{with_entries} in "
                f"{len(report_input.labels)} classes",
                caption="t-SNE; only what lies close together means something",
            ),
        ),
        numbers={"images": len(embedding.images), "entries": entries},
    )


def _draw(drawing: Drawing, embedding: Embedding, labels: tuple[str, ...]) -> None:
    axes: Axes = drawing.add_subplot()
    for index, color in enumerate(class_colors(len(labels))):
        images = embedding.images[embedding.image_classes == index]
        label = plain(labels[index], 16) if len(labels) <= _MOST_IN_LEGEND else None
        axes.scatter(
            images[:, 0],
            images[:, 1],
            s=14,
            facecolors="none",
            edgecolors=color,
            alpha=0.55,
            linewidths=0.8,
            label=label,
        )
        entries = embedding.entries[embedding.entry_classes == index]
        axes.scatter(entries[:, 0], entries[:, 1], s=42, marker="+", color=color, linewidths=1.6)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    if len(labels) <= _MOST_IN_LEGEND:
        drawing.legend(loc="outside lower center", ncols=6, fontsize=9, handletextpad=0.2, columnspacing=1.0)
