"""Explanations as one self-contained HTML page: no requests, no scripts, and every text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib import resources
from importlib.metadata import version
from typing import Final

from mnserve.client.images import Pixels
from mnserve.predicting.answers import LabelledPrediction
from mnserve.predicting.explanations import Explanation, Neighbor
from mnserve.predicting.pictures import data_uri
from mnserve.predicting.training_images import TrainingImage
from mnserve.text.names import printable

MAX_IMAGES: Final = 500
"""Images on a page; more take too much memory, here and in a browser."""


@dataclass(frozen=True, kw_only=True)
class _PageEntry:
    """An image with its answer and explanation."""

    prediction: LabelledPrediction
    explanation: Explanation
    picture: str
    """The image as a ``data:`` address."""


class ExplanationPage:
    """Collects explained predictions, and renders them as HTML.

    Args:
        model: Name of the model.
        max_images: Most images on the page.
        finding: What the exporter found about the explanations, such as that they mean little; or None.
    """

    def __init__(self, model: str, max_images: int = MAX_IMAGES, finding: str | None = None) -> None:
        self._model = model
        self._finding = finding
        self._max_images = max_images
        self._entries: list[_PageEntry] = []
        self._pictures: dict[int, str] = {}
        self.left_out = 0
        """Predictions beyond the limit of the page."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, prediction: LabelledPrediction, pixels: Pixels) -> None:
        """Adds a prediction with its explanation and its image uint8 [H, W, C]."""
        assert prediction.explanation is not None
        if len(self._entries) == self._max_images:
            self.left_out += 1
            return
        self._entries.append(
            _PageEntry(prediction=prediction, explanation=prediction.explanation, picture=data_uri(pixels))
        )

    def html(self) -> str:
        """Renders the page."""
        style = (resources.files("mnserve.predicting") / "page.css").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        full_bar = max((n.weight for entry in self._entries for n in entry.explanation.neighbors), default=1.0)
        title = f"{_text(self._model)}: {len(self)} image{'' if len(self) == 1 else 's'} explained"
        lines = [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            f"style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">',
            f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>",
            f"<header>\n<h1>{title}</h1>\n<p>{self._legend(full_bar)}</p>{self._warning()}\n</header>\n<main>",
            *(line for entry in self._entries for line in self._article(entry, full_bar)),
            f"</main>\n<footer>mn-runtime {version('mn-runtime')}, mnserve predict --explain</footer>",
            "</body>\n</html>\n",
        ]
        return "\n".join(lines)

    def _legend(self, full_bar: float) -> str:
        pictured = any(neighbor.images for entry in self._entries for neighbor in entry.explanation.neighbors)
        images = (
            " Below each are the training images nearest to it, with class and position in the training split."
            if pictured
            else ""
        )
        return (
            "The learned neighbors that had the largest share in each answer. A full bar is a share of "
            f"{full_bar:.1%}.{images}"
        )

    def _warning(self) -> str:
        return "" if self._finding is None else f'\n<p class="changed">Note: {_text(self._finding)}.</p>'

    def _article(self, entry: _PageEntry, full_bar: float) -> Iterator[str]:
        best, explanation = entry.prediction.top[0], entry.explanation
        file = _text(entry.prediction.file)
        yield f'<article>\n<div class="query"><img src="{entry.picture}" alt="{file}"><div>'
        yield f"<h2><bdi>{file}</bdi></h2>\n<dl>"
        for name, label, probability in (
            ("Answer", best.label, best.probability),
            ("Without adaptation", explanation.unadapted_label, explanation.unadapted_probability),
        ):
            yield f"<div><dt>{name}</dt><dd><bdi>{_text(label)}</bdi> {probability:.1%}</dd></div>"
        yield "</dl>"
        if best.label != explanation.unadapted_label:
            yield '<p class="changed">Adaptation changed the class.</p>'
        yield "</div></div>\n<ol>"
        for neighbor in explanation.neighbors:
            yield from self._neighbor(neighbor, full_bar)
        yield "</ol>\n</article>"

    def _neighbor(self, neighbor: Neighbor, full_bar: float) -> Iterator[str]:
        share = f"{neighbor.weight:.1%}"
        length = 100 * neighbor.weight / full_bar if full_bar > 0 else 0.0
        yield f"<li><p><b><bdi>{_text(neighbor.label)}</bdi></b> · {share} · entry {neighbor.entry}</p>"
        yield (
            f'<svg class="bar" viewBox="0 0 100 7" preserveAspectRatio="none" role="img" aria-label="{share}">'
            f'<rect class="whole" width="100" height="7"/><rect class="share" width="{length:.2f}" height="7"/></svg>'
        )
        if neighbor.images:
            yield '<div class="pictures">'
            yield from (self._picture(image) for image in neighbor.images)
            yield "</div>"
        yield "</li>"

    def _picture(self, image: TrainingImage) -> str:
        if image.position not in self._pictures:
            self._pictures[image.position] = data_uri(image.pixels)
        source = self._pictures[image.position]
        label = _text(image.label)
        description = f"training image {image.position}, {label}"
        return (
            f'<figure><img src="{source}" alt="{description}" title="{description}">'
            f"<figcaption><bdi>{label}</bdi> at {image.position}</figcaption></figure>"
        )


def _text(text: str) -> str:
    """Escapes text for an HTML element or a quoted attribute."""
    return escape(printable(text))
