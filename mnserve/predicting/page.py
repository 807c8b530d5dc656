"""Explanations as one self-contained page: nothing is fetched, nothing is run, every text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib import resources
from importlib.metadata import version

from mnserve.client.images import Pixels
from mnserve.predicting.answers import LabelledPrediction
from mnserve.predicting.explanations import Explanation, Neighbor
from mnserve.predicting.pictures import data_uri
from mnserve.predicting.training_images import TrainingImage
from mnserve.text.names import printable

MAX_IMAGES = 500
"""Images on a page; more would be too much for a browser, and for the memory here."""


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """An image, its answer and why."""

    prediction: LabelledPrediction
    explanation: Explanation
    picture: str
    """The image as a ``data:`` address."""


class ExplanationPage:
    """Collects predictions, and becomes HTML.

    Args:
        model: its name.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._shown: list[_Shown] = []
        self._pictures: dict[int, str] = {}
        self.left_out = 0
        """Predictions for which there was no room."""

    def __len__(self) -> int:
        return len(self._shown)

    def add(self, prediction: LabelledPrediction, pixels: Pixels) -> None:
        """Takes in a prediction with its explanation, and the image uint8 [H, W, C] that it is about."""
        assert prediction.explanation is not None
        if len(self._shown) == MAX_IMAGES:
            self.left_out += 1
            return
        self._shown.append(_Shown(prediction=prediction, explanation=prediction.explanation, picture=data_uri(pixels)))

    def html(self) -> str:
        """The page."""
        style = (resources.files("mnserve.predicting") / "page.css").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        longest = max((one.weight for shown in self._shown for one in shown.explanation.neighbors), default=1.0)
        title = f"{_text(self._model)}: {len(self)} image{'' if len(self) == 1 else 's'} explained"
        lines = [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            f"style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">',
            f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>",
            f"<header>\n<h1>{title}</h1>\n<p>{self._legend(longest)}</p>\n</header>\n<main>",
            *(line for shown in self._shown for line in self._article(shown, longest)),
            f"</main>\n<footer>mn-runtime {version('mn-runtime')}, mnserve predict --explain</footer>",
            "</body>\n</html>\n",
        ]
        return "\n".join(lines)

    def _legend(self, longest: float) -> str:
        pictured = any(one.images for shown in self._shown for one in shown.explanation.neighbors)
        images = (
            " Below each are the training images nearest to it, with class and position in the training split."
            if pictured
            else ""
        )
        return (
            "The learned neighbors that had the largest share in each answer. A full bar is a share of "
            f"{longest:.1%}.{images}"
        )

    def _article(self, shown: _Shown, longest: float) -> Iterator[str]:
        best, why = shown.prediction.top[0], shown.explanation
        file = _text(shown.prediction.file)
        yield f'<article>\n<div class="query"><img src="{shown.picture}" alt="{file}"><div>'
        yield f"<h2><bdi>{file}</bdi></h2>\n<dl>"
        for name, label, probability in (
            ("Answer", best.label, best.probability),
            ("Without adaptation", why.unadapted_label, why.unadapted_probability),
        ):
            yield f"<div><dt>{name}</dt><dd><bdi>{_text(label)}</bdi> {probability:.1%}</dd></div>"
        yield "</dl>"
        if best.label != why.unadapted_label:
            yield '<p class="changed">Adaptation changed the class.</p>'
        yield "</div></div>\n<ol>"
        for neighbor in why.neighbors:
            yield from self._neighbor(neighbor, longest)
        yield "</ol>\n</article>"

    def _neighbor(self, neighbor: Neighbor, longest: float) -> Iterator[str]:
        share = f"{neighbor.weight:.1%}"
        length = 100 * neighbor.weight / longest if longest > 0 else 0.0
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
        said = f"training image {image.position}, {label}"
        return (
            f'<figure><img src="{source}" alt="{said}" title="{said}">'
            f"<figcaption><bdi>{label}</bdi> at {image.position}</figcaption></figure>"
        )


def _text(text: str) -> str:
    """Text for HTML, in an element or a quoted attribute."""
    return escape(printable(text))
