"""Client of benchmarks/structure.py, in a process of its own so that none of its calls are traced.

    python caller.py HOST:PORT REQUEST

Sends the bytes of the file REQUEST to ModelInfer for each line that it reads, and prints the answer's bytes in
hexadecimal. Knows nothing of this repository.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import grpc

_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_SECONDS = 60


def main() -> None:
    address, file = sys.argv[1:]
    request = Path(file).read_bytes()
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        infer: Callable[..., bytes] = channel.unary_unary(_METHOD)
        for _ in sys.stdin:
            print(infer(request, timeout=_SECONDS).hex(), flush=True)


if __name__ == "__main__":
    main()
