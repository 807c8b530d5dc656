"""Requests of known forms, as callers of a server see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from mnserve.engines.fake import FakeEngine
from mnserve.models.load_options import LoadOptions
from mnserve.models.registry import Models
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub, add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc.servicer import Servicer
from mnserve.rpc.services import Services


async def test_the_form_of_a_request_is_learned_again_once_its_model_is_loaded_again(
    repository: Path, double_model: Callable[..., Path]
) -> None:
    double_model("m")
    models = Models(repository, LoadOptions(warm_up=False, factory=lambda path, options: FakeEngine()))
    await models.load_all()
    servicer, server = Servicer(models), grpc.aio.server()
    Services(server, inference=servicer).add(add_GRPCInferenceServiceServicer_to_server, servicer)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    message = pb.ModelInferRequest(model_name="m", id="7")
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    message.raw_input_contents.append(np.arange(4, dtype="<f4").tobytes())
    assert servicer._forms is not None
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]  # generated for the blocking channel
        for _ in range(2):
            for _ in range(2):
                answer = await stub.ModelInfer(message)
                assert (answer.id, np.frombuffer(answer.raw_output_contents[0], "<f4").tolist()) == ("7", [0, 2, 4, 6])
                known = servicer._forms.find(message.SerializeToString())
                assert known is not None
                assert known.form.signature is models.find("m").signature
            await models.load("m")
    assert await models.drain(20)
    await server.stop(None)
