"""A model of MLServer that runs an ONNX file; MLServer imports this in an environment of its own."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-not-found,unused-ignore]
from mlserver import MLModel  # type: ignore[import-not-found]
from mlserver.codecs import NumpyCodec  # type: ignore[import-not-found]
from mlserver.types import InferenceRequest, InferenceResponse  # type: ignore[import-not-found]


class OnnxModel(MLModel):  # type: ignore[misc]
    """Runs one session in a thread, as mnserve does."""

    async def load(self) -> bool:
        """Open the file that the variable REST_MODEL names."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(os.environ["REST_MODEL"], options)
        self._thread = ThreadPoolExecutor(1)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Run a batch."""
        x = np.asarray(NumpyCodec.decode_input(payload.inputs[0]), np.float32)
        loop = asyncio.get_running_loop()
        y = await loop.run_in_executor(self._thread, lambda: self._session.run(None, {"x": x})[0])
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", y)])
