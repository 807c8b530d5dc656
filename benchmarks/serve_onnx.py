"""Serve one ONNX file, for harnesses that compare servers.

    python benchmarks/serve_onnx.py resnet56.onnx --port 9000 --max-batch 32 --delay-ms 0
    python benchmarks/serve_onnx.py resnet56.onnx --port 9000 --instances 2 -- --log-level warning

The file becomes the model ``m`` of a repository in a temporary folder, which is removed in the end. Words behind
``--`` are options of ``mnserve serve``. The script ends as the server does, on SIGTERM too.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common.options import existing_file, milliseconds, plain_name, positive_integer, script_parser, whole_number


def main() -> int:
    """Run the server; returns its exit code."""
    parser = script_parser(__doc__)
    parser.add_argument("model", type=existing_file, help="an ONNX file")
    parser.add_argument("--name", type=plain_name, default="m", help="what it is served as (%(default)s)")
    parser.add_argument("--port", type=whole_number, default=8001, help="for gRPC (%(default)s)")
    parser.add_argument("--max-batch", type=whole_number, default=32, help="most rows in a batch (%(default)s)")
    parser.add_argument("--delay-ms", type=milliseconds, default=0.0, help="how long a batch waits (%(default)s)")
    parser.add_argument(
        "--threads",
        type=whole_number,
        default=0,
        help="of each engine; 0 leaves the choice to the server (%(default)s)",
    )
    parser.add_argument("--instances", type=positive_integer, default=1, help="engines side by side (%(default)s)")
    parser.add_argument("options", nargs="*", help="of mnserve serve, behind --")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    # argparse takes no words for a list of any length once it has seen an option.
    args = parser.parse_args(words[:end])
    args.options += words[end + 1 :]
    with tempfile.TemporaryDirectory(prefix="serve-onnx-") as folder:
        version = Path(folder) / args.name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").symlink_to(args.model.resolve())
        (version.parent / "config.pbtxt").write_text(config(args))
        command = [sys.executable, "-m", "mnserve", "serve", folder, "--grpc-port", str(args.port)]
        command += ["--metrics-port", "0", "--intra-op-threads", str(args.threads), *args.options]
        with subprocess.Popen(command) as server:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, _: server.send_signal(number))
            return server.wait()


def config(args: argparse.Namespace) -> str:
    """Write the config.pbtxt of the model."""
    lines = [f"max_batch_size: {args.max_batch}"]
    if args.delay_ms:
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {round(args.delay_ms * 1000)} }}")
    if args.instances > 1:
        lines.append(f"instance_group {{ count: {args.instances} kind: KIND_CPU }}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
