"""Put a request through the codec, and check what must hold for every request.

A request is answered, or refused with an error of the protocol in a message that fits into gRPC's metadata. A decoded
request keeps the model's rules, and comes back bit for bit from an answer that holds it.
"""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from fuzzing.dice import Dice
from fuzzing.signatures import RULES, SIGNATURES
from fuzzing.structured import nearly_valid
from mnserve.batching.request_limits import request_limits
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.decoding import InferenceWork, check_request
from mnserve.codec.encoding import encode_response
from mnserve.codec.shared_memory import Region, Regions
from mnserve.codec.signature import RequestSignature
from mnserve.codec.tensors import raw_to_array
from mnserve.errors import MnServeError
from mnserve.models.response_cache import response_key
from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.wire import ElementLimits, NotAMessageError, WireShape, first_excess
from mnserve.status import status_code

_MAX_TEXT: Final = 2000
"""Largest number of characters of a refusal: clients take 8 KiB of trailing metadata, escapes included."""
_MAX_ANSWER: Final = 64
_SHAPE: Final = WireShape.of(pb.ModelInferRequest.DESCRIPTOR)  # type: ignore[arg-type]
_LIMITS: Final = ElementLimits(fields=2**20, values=2**20, numbers=2**20, texts=2**20)


class Finding(AssertionError):
    """A rule that must hold for every request is broken."""


class Target:
    """Takes requests, and counts their outcomes.

    Args:
        folder: folder of the shared memory objects.
    """

    def __init__(self, folder: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        """``answered``, ``no message``, or the kind of error -> requests."""
        self._folder = folder
        self._regions = Regions(folder)
        for name in ("region", "shrunk"):
            (folder / name).write_bytes(bytes(4096))
            self._regions.register(Region(name=name, key=name, offset=0, byte_size=4096))
        os.truncate(folder / "shrunk", 8)

    def raw(self, data: bytes) -> None:
        """Decode bytes as they may come over the wire, against every model."""
        try:
            excess = first_excess(data, _SHAPE, _LIMITS)
        except NotAMessageError:
            excess = "no message"
        try:
            request = pb.ModelInferRequest.FromString(data)
        except DecodeError:
            self.outcomes["no message"] += 1
            return
        if excess is not None:
            raise Finding(f"protobuf parses a message that is refused before: {excess}")
        for number, signature in enumerate(SIGNATURES):
            self._checked(request, signature, number)

    def structured(self, dice: Dice) -> None:
        """Decode a request that is nearly right for one of the models."""
        number = dice.integer(0, len(SIGNATURES) - 1)
        request = nearly_valid(SIGNATURES[number], dice)
        # Encoded and parsed, since only requests that a client can send count.
        self._checked(
            pb.ModelInferRequest.FromString(request.SerializeToString()), SIGNATURES[number], dice.integer(0, 2)
        )

    def _checked(self, request: pb.ModelInferRequest, signature: RequestSignature, number: int) -> None:
        regions = self._regions if number % 4 != 3 else None
        try:
            limits = request_limits(request, RULES[number % len(RULES)], now=0.0, remaining=None)
            checked = check_request(request, signature, regions)
            _ = checked.large
            work = checked.decode()
            _check_decoded(work, signature)
            if work.nbytes < 0 or len(response_key(work)) != 16 or (limits.deadline or 0) < 0 or limits.max_wait < 0:
                raise Finding(f"{work.nbytes} bytes, {limits}")
            response = encode_response(
                signature=signature,
                version=1,
                request_id=request.id,
                names=work.outputs,
                arrays=[work.feeds[name] for name in work.outputs],
                max_bytes=_MAX_ANSWER if number % 3 == 1 else None,
                targets=checked.targets,
                regions=regions,
                classes=checked.layout.classes,
            )
            parsed = pb.ModelInferResponse.FromString(response.SerializeToString())
            self._check_answer(parsed, work, signature, checked.layout.classes or {})
        except MnServeError as error:
            check_refusal(error)
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["answered"] += 1

    def _check_answer(
        self,
        response: pb.ModelInferResponse,
        work: InferenceWork,
        signature: RequestSignature,
        classes: Mapping[str, int],
    ) -> None:
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
            rule = signature.output_rules[output.name]
            if "shared_memory_region" in output.parameters:
                continue  # two outputs may lie in the same place
            if output.name in classes:
                scores = work.feeds[output.name].size
                texts = raw_to_array(raw, DATATYPES[output.datatype], list(output.shape), output.name)
                if texts.size != min(scores, classes[output.name] * (work.rows if signature.max_batch_size else 1)):
                    raise Finding(f"'{output.name}' has {texts.size} classes of {scores} scores")
                continue
            array = raw_to_array(raw, rule.datatype, list(output.shape), output.name)
            sent = work.feeds[output.name]
            if array.shape != sent.shape or (array.tobytes() != sent.tobytes() and array.tolist() != sent.tolist()):
                raise Finding(f"'{output.name}' went out as {array!r}, and was {sent!r}")


def _check_decoded(work: InferenceWork, signature: RequestSignature) -> None:
    if not 1 <= work.rows <= max(1, signature.max_batch_size) or not work.outputs:
        raise Finding(f"{work.rows} rows, outputs {work.outputs}")
    if list(work.feeds) != [rule.name for rule in signature.inputs]:
        raise Finding(f"inputs {list(work.feeds)}")
    for rule in signature.inputs:
        array, full = work.feeds[rule.name], signature.full_shape(rule)
        fits = array.ndim == len(full) and all(size in (-1, got) for size, got in zip(full, array.shape, strict=True))
        batched = signature.max_batch_size == 0 or array.shape[0] == work.rows
        if not fits or not batched or array.dtype != rule.datatype.dtype:
            raise Finding(f"'{rule.name}' is {array.dtype} {array.shape}, expected {rule.datatype.name} {full}")
        if full[:1] == [-1] and array.shape[0] == 0:
            raise Finding(f"'{rule.name}' has no rows, which some engines do not survive")
        if rule.datatype.is_bytes and not all(isinstance(item, bytes) for item in array.flat):
            raise Finding(f"'{rule.name}' holds something else than bytes")
        numbers = rule.datatype.floating and rule.datatype.name != "BF16" and not signature.allow_non_finite
        if numbers and not (np.isfinite(array) | (np.isnan(array) & signature.allow_nan)).all():
            raise Finding(f"'{rule.name}' is not finite")


def check_refusal(error: MnServeError) -> None:
    """Check that an error has a status, and a text that clients take."""
    if status_code(error) is grpc.StatusCode.INTERNAL:
        raise Finding(f"{type(error).__name__} has no status: {error}") from error
    text = str(error)
    if not text or len(text) > _MAX_TEXT:
        raise Finding(f"{type(error).__name__} with {len(text)} characters") from error
    text.encode("utf-8")
