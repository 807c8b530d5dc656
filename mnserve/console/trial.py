"""A prediction that the page asks for, in a thread of its own: reading images and tables takes long."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from mnserve.console.called_model import ConsoleModel, Infer
from mnserve.console.image_trial import ImageTrial
from mnserve.console.kinds import image_input, table_layout
from mnserve.console.neighbor_images import PublishedImages
from mnserve.console.row_trial import predict_rows
from mnserve.console.tensor_trial import predict_tensors
from mnserve.console.trial_input import TrialInput
from mnserve.console.waiting import Waiting
from mnserve.errors import (
    ImageError,
    ImageModelError,
    InvalidRequestError,
    RowError,
    RowFileError,
    RowModelError,
    TooManyCallsError,
    TrainingImagesError,
)
from mnserve.models.catalogue import Catalogue, Endpoint

_THREADS: Final = 2
MAX_TRIALS: Final = 16
"""Most predictions for pages at a time; each may hold a large image."""
_INPUT_ERRORS: Final = (ImageError, ImageModelError, RowFileError, RowError, RowModelError, TrainingImagesError)
"""Errors of commands, which are errors of the request here."""


class Trials:
    """Makes predictions for pages.

    Args:
        models: The served models.
        images: Training images of neighbors.
        most_bytes: Largest request of inference.
    """

    def __init__(self, models: Catalogue, images: PublishedImages, most_bytes: int) -> None:
        self._models, self._images, self._most_bytes = models, images, most_bytes
        # Requests are decoded in threads of the event loop; these wait for requests and must not take their places.
        self._threads = ThreadPoolExecutor(_THREADS, "console")
        self._running = 0

    async def predict(self, given: TrialInput, infer: Infer) -> dict[str, Any]:
        """Makes a prediction.

        Args:
            given: Model and input.
            infer: Answers one request, with all limits of requests.

        Returns:
            Model, version, milliseconds of inference, notes, and the results, in values of JSON.

        Raises:
            MnServeError: The model cannot be asked, or the input cannot be used.
        """
        if self._running >= MAX_TRIALS:
            raise TooManyCallsError(f"{MAX_TRIALS} predictions for pages are in progress already; try again later")
        endpoint = self._models.find(given.model, given.version)
        loop = asyncio.get_running_loop()
        waiting = Waiting(self._models.closing.is_set)
        model = ConsoleModel(endpoint, infer, loop, waiting)
        self._running += 1
        try:
            results, notes = await loop.run_in_executor(self._threads, self._run, given, endpoint, model)
        finally:  # also where the client has left, while the thread goes on
            self._running -= 1
            waiting.end()
        return {
            "model": endpoint.name,
            "version": endpoint.version,
            "milliseconds": 1e3 * model.seconds,
            "notes": list(notes),
            "results": results,
        }

    def _run(
        self, given: TrialInput, endpoint: Endpoint, model: ConsoleModel
    ) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        try:
            if given.images is not None:
                taken = image_input(endpoint.config)
                if taken is None:
                    raise InvalidRequestError(f"model '{endpoint.name}' takes no images; send it rows or tensors")
                trial = ImageTrial(
                    model,
                    taken,
                    explain=given.explain,
                    find_images=lambda: self._images.of(endpoint),
                    most_bytes=self._most_bytes,
                )
                return trial.predict(given.images), trial.notes
            if given.rows is not None:
                layout = table_layout(endpoint.config)
                if layout is None:
                    raise InvalidRequestError(f"model '{endpoint.name}' takes no rows; send it images or tensors")
                return predict_rows(model, layout, given.rows, explain=given.explain, check=model.waiting.check)
            return predict_tensors(model, endpoint.signature, given.tensors or {}), ()
        except _INPUT_ERRORS as error:
            raise InvalidRequestError(str(error)) from error
