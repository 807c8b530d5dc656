"""Triton's client examples for Python: how each is run, and what comes of it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

IMAGE: Final = "{image}"
"""Stands for the path of an image among the arguments."""


@dataclass(frozen=True)
class Example:
    """One run of an example.

    Attributes:
        file: name of the program.
        arguments: its arguments; the address is added.
        reason: why it cannot pass here; empty for one that passes.
        explicit: it loads and unloads models itself.
        fixed_port: it asks localhost:8001, whatever the address.
        http: it speaks HTTP.
        without: model that the repository lacks, for an example that counts others.
    """

    file: str
    arguments: tuple[str, ...] = ()
    reason: str = ""
    explicit: bool = False
    fixed_port: bool = False
    http: bool = False
    without: str = ""

    @property
    def title(self) -> str:
        """Name and arguments."""
        return " ".join((self.file.removesuffix(".py"), *self.arguments)).replace(IMAGE, "IMAGE")


_GRPC: Final = ("-i", "grpc")
_DENSENET: Final = ("-m", "densenet_onnx", "-c", "3", "-s", "INCEPTION")
_INCEPTION: Final = ("-m", "inception_onnx", "-c", "2", "-s", "INCEPTION")
_SEQUENCES: Final = "models keep no state between the requests of a sequence: UNIMPLEMENTED"
_DECOUPLED: Final = "its model is decoupled, with several answers to a request; here each has one"
_PACKED: Final = ("--request-compression-algorithm", "gzip", "--response-compression-algorithm", "deflate")
_ATTRDICT: Final = "over HTTP the example needs attrdict, which Python 3.10 and later cannot import"
_GPU: Final = "memory of a GPU cannot be registered: UNIMPLEMENTED (and the client needs a GPU)"

EXAMPLES: Final = (
    Example("simple_grpc_infer_client.py"),
    Example("simple_grpc_async_infer_client.py"),
    Example("simple_grpc_aio_infer_client.py"),
    Example("simple_grpc_string_infer_client.py"),
    Example("simple_grpc_shm_client.py"),
    Example("simple_grpc_shm_string_client.py"),
    Example("simple_grpc_health_metadata.py"),
    Example("simple_grpc_custom_args_client.py"),
    Example("simple_grpc_keepalive_client.py"),
    Example("grpc_client.py"),
    Example("grpc_explicit_int_content_client.py"),
    Example("grpc_explicit_int8_content_client.py"),
    Example("grpc_explicit_byte_content_client.py"),
    Example("image_client.py", (*_GRPC, *_DENSENET, IMAGE)),
    Example("image_client.py", (*_GRPC, *_INCEPTION, "-a", IMAGE)),
    Example("image_client.py", (*_GRPC, *_DENSENET, "--streaming", IMAGE)),
    Example("grpc_image_client.py", (*_DENSENET, IMAGE)),
    Example("grpc_image_client.py", (*_INCEPTION, "-a", IMAGE)),
    Example("grpc_image_client.py", (*_DENSENET, "--streaming", IMAGE)),
    Example("reuse_infer_objects_client.py", _GRPC),
    Example("memory_growth_test.py", (*_GRPC, "-r", "100"), fixed_port=True),
    Example(
        "simple_grpc_model_control.py",
        explicit=True,
        reason="passes up to its last check: it wants INTERNAL for a model file in the call, and this is UNIMPLEMENTED",
    ),
    Example("simple_grpc_sequence_stream_infer_client.py", reason=_SEQUENCES),
    Example("simple_grpc_sequence_sync_infer_client.py", reason=_SEQUENCES),
    Example("simple_grpc_aio_sequence_stream_infer_client.py", reason=_SEQUENCES),
    Example("simple_grpc_custom_repeat.py", reason=_DECOUPLED),
    Example("simple_grpc_cudashm_client.py", reason=_GPU),
    Example("simple_http_infer_client.py", http=True),
    Example("simple_http_async_infer_client.py", http=True),
    Example("simple_http_aio_infer_client.py", http=True),
    Example("simple_http_string_infer_client.py", http=True),
    Example("simple_http_shm_client.py", http=True),
    Example("simple_http_shm_string_client.py", http=True),
    Example("simple_http_health_metadata.py", http=True),
    Example("simple_http_infer_client.py", _PACKED, http=True),
    Example("image_client.py", (*_DENSENET, IMAGE), http=True, reason=_ATTRDICT),
    Example("reuse_infer_objects_client.py", http=True),
    Example(
        "simple_http_model_control.py",
        http=True,
        explicit=True,
        without="simple_sequence",
    ),
    Example("simple_http_sequence_sync_infer_client.py", http=True, reason=_SEQUENCES),
    Example("simple_http_cudashm_client.py", http=True, reason=_GPU),
    Example("ensemble_image_client.py", (*_GRPC, IMAGE), reason="ensembles are not served"),
)
