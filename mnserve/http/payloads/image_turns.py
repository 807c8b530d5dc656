"""Images in requests of inference: files of a form, or base64 text in JSON, for models with an image input.

They are decoded and brought to the size of the model as ``mnserve predict`` does, so as in training.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from mnserve.client.images import Pixels, decode_image
from mnserve.codec.datatypes import BY_CONFIG_TYPE
from mnserve.errors import ImageError, ImageModelError, InvalidRequestError, MessageTooLargeError
from mnserve.http.payloads.sent_images import SentImages
from mnserve.models.catalogue import Endpoint
from mnserve.predicting.image_input import ImageInput
from mnserve.protocol import service_pb2 as pb


class ImageTurns:
    """Decodes images, those of one request at a time: an image may take hundreds of megabytes."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def put(self, images: SentImages, request: pb.ModelInferRequest, served: Endpoint, most: int) -> None:
        """Decodes images, and puts them into a request as the tensor that the model takes.

        Args:
            images: The images.
            request: The message.
            served: The model.
            most: Most bytes of the tensor.

        Raises:
            InvalidRequestError: The model takes no images, or other ones.
            MessageTooLargeError: The tensor has more bytes than ``most``.
        """
        try:
            taken = ImageInput.from_config(served.config)
        except ImageModelError as error:
            reason = str(error).replace("; call it through a client instead", "")
            raise InvalidRequestError(f"{reason}; send its tensors in place of image files") from None
        if not 0 < len(images.files) <= taken.max_batch:
            raise InvalidRequestError(
                f"model '{served.name}': the request has {len(images.files)} images, expected from 1 to "
                f"{taken.max_batch}; split it"
            )
        async with self._turn:
            batch = await asyncio.to_thread(_decoded, images, taken, most)
        if images.position is None:
            tensor = request.inputs.add(name=taken.name)
            request.raw_input_contents.append(batch.tobytes())
        else:
            tensor = request.inputs[images.position]
            request.raw_input_contents[images.position] = batch.tobytes()
        datatype = next(
            BY_CONFIG_TYPE[tensor.data_type].name for tensor in served.config.input if tensor.name == taken.name
        )
        tensor.datatype, tensor.shape[:] = datatype, batch.shape


def _decoded(images: SentImages, taken: ImageInput, most: int) -> np.ndarray[Any, Any]:
    fit = taken.fit or ("stretch" if images.resize else None)
    pixels: list[Pixels] = []
    size = 0
    for data, name in zip(images.files, images.names, strict=True):
        try:
            image = decode_image(data, name, taken.size, fit=fit)
        except ImageError as error:
            raise InvalidRequestError(str(error)) from None
        size += image.size * taken.dtype.itemsize
        if size > most:  # a file of some kilobytes may become hundreds of megabytes
            raise MessageTooLargeError(
                f"{name}: the tensor of the images has {size} bytes with it, and a request takes at most {most}; send "
                "smaller images or fewer, or start the server with a larger --max-message-bytes"
            )
        pixels.append(image)
    if len({image.shape for image in pixels}) > 1:
        raise InvalidRequestError("the images have several sizes; send those of one size in one request")
    return taken.encode(pixels)
