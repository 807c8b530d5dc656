"""Put bodies of HTTP through the codec, and check what must hold for each.

A body is answered, or refused with an error of the protocol. What comes out of a body is what the same request of gRPC
has in it, and an answer holds the same values in JSON and as binary tensors.
"""

import json
from collections import Counter
from typing import Any

import numpy as np

from fuzzing.dice import Dice
from fuzzing.http_bodies import body_of, damaged
from fuzzing.signatures import SIGNATURES
from fuzzing.structured import nearly_valid
from fuzzing.target import Finding, check_refusal
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.decoding import InferenceWork, check_request
from mnserve.codec.encoding import encode_response
from mnserve.codec.signature import RequestSignature
from mnserve.codec.tensors import raw_to_array
from mnserve.errors import MnServeError
from mnserve.http.payloads.answers import write_answer
from mnserve.http.payloads.forms import read_form
from mnserve.http.payloads.requests import AnswerForm, read_request
from mnserve.http.payloads.tensors import json_to_raw
from mnserve.protocol import service_pb2 as pb

_FORM = "multipart/form-data; boundary=B"


class HttpTarget:
    """Takes bodies, and counts their outcomes."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        """``answered``, ``form``, or the kind of error -> bodies."""

    def raw(self, data: bytes) -> None:
        """Read bytes as a body of every kind: a form, JSON, and JSON of some length with binary tensors."""
        if len(data) < 3:
            return
        signature, length, body = SIGNATURES[data[0] % len(SIGNATURES)], data[1] + data[2] * 256, data[3:]
        if data[0] >= 240:
            self._form(body)
        self._checked(body, None, signature)
        self._checked(body, length, signature)

    def structured(self, dice: Dice) -> None:
        """Read a request that is nearly right for one of the models, or the same with damage."""
        signature = SIGNATURES[dice.integer(0, len(SIGNATURES) - 1)]
        request = pb.ModelInferRequest.FromString(nearly_valid(signature, dice).SerializeToString())
        body, json_bytes = body_of(request, dice)
        if dice.integer(0, 2) == 2:
            self._checked(damaged(body, dice), json_bytes, signature)
            return
        same = self._outcome(request, signature)
        found = self._checked(body, json_bytes, signature)
        if isinstance(same, InferenceWork) and isinstance(found, InferenceWork):
            _check_same(found, same)

    def _form(self, body: bytes) -> None:
        try:
            read_form(_FORM, body)
        except MnServeError as error:
            check_refusal(error)
        self.outcomes["form"] += 1

    def _outcome(self, request: pb.ModelInferRequest, signature: RequestSignature) -> InferenceWork | MnServeError:
        try:
            return check_request(request, signature, None).decode()
        except MnServeError as error:
            return error

    def _checked(
        self, body: bytes, json_bytes: int | None, signature: RequestSignature
    ) -> InferenceWork | MnServeError:
        try:
            read = read_request(body, json_bytes, signature.model, "")
            checked = check_request(read.message, signature, None)
            work = checked.decode()
            response = encode_response(
                signature=signature,
                version=1,
                request_id=read.message.id,
                names=work.outputs,
                arrays=[work.feeds[name] for name in work.outputs],
                classes=checked.layout.classes,
            )
            for binary in (True, False):
                _check_answer(response, AnswerForm(binary=binary, named={}))
            write_answer(response, read.form)
        except MnServeError as error:
            check_refusal(error)
            self.outcomes[type(error).__name__] += 1
            return error
        self.outcomes["answered"] += 1
        return work


def _check_same(found: InferenceWork, expected: InferenceWork) -> None:
    if list(found.feeds) != list(expected.feeds) or found.outputs != expected.outputs or found.rows != expected.rows:
        raise Finding(f"the body asks for {found.outputs} of {list(found.feeds)}, gRPC for {expected.outputs}")
    for name, array in expected.feeds.items():
        other = found.feeds[name]
        if array.shape != other.shape or (array.tobytes() != other.tobytes() and array.tolist() != other.tolist()):
            raise Finding(f"'{name}' is {other!r} in the body, and {array!r} in gRPC")


def _check_answer(response: pb.ModelInferResponse, form: AnswerForm) -> None:
    """Check that an answer holds the values of its message; JSON may refuse what it has not."""
    try:
        answer = write_answer(response, form)
    except MnServeError as error:
        if form.binary:
            raise Finding(f"a binary answer is refused: {error}") from error
        check_refusal(error)
        return
    length = next((int(value) for name, value in answer.headers if name.startswith(b"inference")), len(answer.body))
    content: dict[str, Any] = json.loads(answer.body[:length])
    position = length
    for output, raw in zip(content["outputs"], response.raw_output_contents, strict=True):
        if "data" not in output:
            size = output["parameters"]["binary_data_size"]
            again = answer.body[position : position + size]
            position += size
        else:
            again = json_to_raw(output["data"], DATATYPES[output["datatype"]], output["shape"], output["name"])
        if again != raw:
            datatype = DATATYPES[output["datatype"]]
            sent, had = (raw_to_array(data, datatype, output["shape"], "") for data in (again, raw))
            if not np.array_equal(sent, had, equal_nan=datatype.floating):
                raise Finding(f"'{output['name']}' went out as {sent!r}, and was {had!r}")
    if position != len(answer.body):
        raise Finding(f"the answer has {len(answer.body) - position} bytes too many")
