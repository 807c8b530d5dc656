"""Train, export and serve on digits, predict through NVIDIA's client, explain, and measure.

Run it with ``make demo``. Its files stay under ``build/demo/``.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
import tritonclient.grpc as triton
from PIL import Image
from rich.console import Console
from rich.table import Table

from mnexport.parity.tolerance import Approximation
from mnserve.bench.server_process import server_process
from mntrain.acting.record import AdaptationRecord
from mntrain.artifact import Artifact, load_artifact
from mntrain.training.evaluation import metric_of

DEMO = Path("build/demo")
RUNS, REPOSITORY, IMAGES = DEMO / "runs", DEMO / "repository", DEMO / "images"
ADAPTIVE = "digits-mn"
# Entries that start at training examples mean something after a training this short.
MODELS = {
    ADAPTIVE: ("--family", "meta_neighborhoods", "--meta_neighborhoods.init", "data"),
    "digits-vanilla": ("--family", "vanilla"),
}
EXPLAIN = "3"
BIN = Path(sys.executable).parent
BIN_NAME = BIN.relative_to(Path.cwd()) if BIN.is_relative_to(Path.cwd()) else BIN
PAGE = DEMO / "explained.html"
# Largest error of a probability, the default of `mnexport` for approximated forms.
TOLERANCE = 1e-3
console = Console(highlight=False)


def main() -> None:
    started = time.monotonic()
    shutil.rmtree(DEMO, ignore_errors=True)
    for name, settings in MODELS.items():
        artifact, explain = str(RUNS / name / "artifact"), ("--explain", EXPLAIN) if name == ADAPTIVE else ()
        run("mntrain", "fit", "digits", *settings, "--name", name, "--runs", str(RUNS))
        if explain:
            run("mntrain", "neighbors", artifact, "--images", EXPLAIN)
        run("mnexport", artifact, str(REPOSITORY / name), *explain)
    artifacts = {name: load_artifact(RUNS / name / "artifact") for name in MODELS}
    save_images(artifacts[ADAPTIVE])
    console.rule("predict through tritonclient")
    with server_process(REPOSITORY, ["--intra-op-threads", "0"]) as address:
        console.print(f"mnserve serves {REPOSITORY} on {address}")
        with triton.InferenceServerClient(address, channel_args=[("grpc.enable_http_proxy", 0)]) as client:
            for name, artifact in artifacts.items():
                predict(client, name, artifact)
    console.print("the server has stopped")
    run("mnserve", "predict", str(REPOSITORY / ADAPTIVE), str(IMAGES), "--explain", "--html", str(PAGE))
    run(
        *("mnserve", "bench", str(REPOSITORY), ADAPTIVE, "--against", "digits-vanilla", "--batch", "1,8,32"),
        *("--json", str(DEMO / "latency.json"), "--plot", str(DEMO / "latency.png")),
    )
    summary()
    console.print(f"\ndone in {time.monotonic() - started:.0f} s; everything is under {DEMO}/")
    console.print("what you could type next:\n")
    for command in (
        f"{BIN_NAME}/mnserve serve {REPOSITORY}",
        f"{BIN_NAME}/mnserve predict {ADAPTIVE} {IMAGES}/*.png --explain",
        f"{BIN_NAME}/mntrain fit digits --meta_neighborhoods.entries 2000 --name larger",
    ):
        console.print(f"  {command}", soft_wrap=True)


def run(command: str, *words: str) -> None:
    """Run a command as a user would type it; the demo stops if it fails."""
    console.rule(command)
    console.print(f"$ {command} {' '.join(words)}", soft_wrap=True)
    done = subprocess.run([str(BIN / command), *words], check=False)
    if done.returncode != 0:
        sys.exit(f"demo: {command} ended with exit code {done.returncode}")


def save_images(artifact: Artifact) -> None:
    """Save ten held-out digits as files, one of each class."""
    IMAGES.mkdir(parents=True)
    for label, name in enumerate(artifact.config.labels):
        index = int(np.flatnonzero(artifact.samples.labels == label)[0])
        Image.fromarray(artifact.samples.images[index, 0]).save(IMAGES / f"digit-{name}.png")


def predict(client: triton.InferenceServerClient, name: str, artifact: Artifact) -> None:
    """Predict held-out images on the server, and compare its answers with the trained model's."""
    config = client.get_model_config(name, as_json=True)["config"]
    limit, images = int(config["max_batch_size"]), artifact.samples.images
    answers = []
    for start in range(0, len(images), limit):
        batch = images[start : start + limit]
        tensor = triton.InferInput("image", list(batch.shape), "UINT8")
        tensor.set_data_from_numpy(batch)
        answers.append(client.infer(name, [tensor]).as_numpy("probabilities"))
    served = np.concatenate(answers)
    with torch.inference_mode():
        trained = artifact.model(artifact.preprocessing(torch.from_numpy(images))).logits.softmax(-1).numpy()
    error = float(np.abs(served - trained).max())
    # As the export's own check does: classes that the trained model has closer than the tolerance allows are a tie.
    given, expected = {"probabilities": served}, {"probabilities": trained}
    others = Approximation(limit=TOLERANCE).other_classes(given, expected)
    same = int((served.argmax(axis=1) == trained.argmax(axis=1)).sum())
    right = float((served.argmax(axis=1) == artifact.samples.labels).mean())
    console.print(
        f"{name}: {len(images)} images, {right:.1%} right; largest difference from the trained model's probabilities "
        f"{error:.1e}, same class on {same} of {len(images)}",
        soft_wrap=True,
    )
    if error > TOLERANCE or others:
        sys.exit(f"demo: the server's answers for {name} are not those of the trained model")


def summary() -> None:
    """Print the accuracies, and the files of the latencies."""
    console.rule("result")
    table = Table()
    for heading in ("model", "test accuracy", "before adaptation", "parameters", "training"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for name in MODELS:
        metrics = json.loads((RUNS / name / "metrics.json").read_text())
        before = metrics["test"]["unadapted_accuracy"]
        table.add_row(
            name,
            f"{metrics['test']['accuracy']:.2%}",
            "–" if before is None else f"{before:.2%}",
            f"{metrics['parameters']:,}",
            f"{metrics['train_seconds']:.0f} s",
        )
        images, accuracy = metrics["test"]["examples"], metrics["test"]["accuracy"]
    error = max((accuracy * (1 - accuracy) / images) ** 0.5, 1 / images)
    console.print(table)
    console.print(
        f"{images} test images: one standard error of these accuracies is {100 * error:.1f} percentage points"
    )
    adaptation()
    files = f"explained answers: {PAGE}; latency: {DEMO / 'latency.json'}, plot {DEMO / 'latency.png'}"
    console.print(files, soft_wrap=True)


def adaptation() -> None:
    """Print what adaptation changed, and what its neighbors mean, as the exported model states it."""
    exported = json.loads((REPOSITORY / ADAPTIVE / "1" / "export.json").read_text())
    metrics = exported["artifact"]["metrics"]
    record = AdaptationRecord.from_metrics(metrics)
    assert record is not None
    sentences = [record.describe(metric_of(metrics["test"], ADAPTIVE)), *record.describe_neighbors()]
    for sentence in (*sentences, *(f"note: {verdict}" for verdict in record.verdicts())):
        console.print(f"{ADAPTIVE}: {sentence}", soft_wrap=True)


if __name__ == "__main__":
    main()
