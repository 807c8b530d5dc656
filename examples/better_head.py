"""Give a trained network a better last layer, and run both as one graph: features, heads, export, prediction.

Run it with ``python examples/better_head.py``; its files stay under ``build/better-head/``. The network is a small one,
trained here on digits. For your own, give ``mntrain.features`` an ONNX file or ``hf:NAME`` and ``data={"path": …}``.
"""

from pathlib import Path

import mnexport
import mnserve
import mntrain

FOLDER = Path("build/better-head")
METHODS = ("joint", "ncm", "crt")


def main() -> None:
    """Train, extract, make heads, export the best, and predict images with it."""
    config = mntrain.load_experiment("digits", ["--family", "vanilla", "--training.epochs", "4", "--name", "network"])
    mntrain.fit(config, mntrain.FitOptions(runs=FOLDER, overwrite=True, quiet=True))
    network = mntrain.load_artifact(FOLDER / "network" / "artifact")

    store = mntrain.features(FOLDER / "network" / "artifact", FOLDER / "features", overwrite=True)
    print(f"{len(store.train.labels)} training rows of {store.train.features.shape[1]} features")

    heads = [
        mntrain.head(method, FOLDER / "features", runs=FOLDER, name="digits", overwrite=True) for method in METHODS
    ]
    for made in heads:
        scores = {split: made.record["scores"][split]["all"]["accuracy"] for split in ("validation", "test")}
        print(f"{made.folder.name:14} validation {scores['validation']:.2%}  test {scores['test']:.2%}")
    best = max(heads, key=lambda made: float(made.record["scores"]["validation"]["all"]["accuracy"]))
    assert best.artifact is not None  # these methods are linear

    target = mnexport.Target(repository=FOLDER / "repository", name="digits", version=1, overwrite=True)
    report = mnexport.export(mnexport.ExportOptions(artifact=best.artifact, target=target))
    print(f"exported {report.path}")

    with mnserve.LocalModel(FOLDER / "repository" / "digits") as model:
        found = model.predict(network.samples.inputs)
    assert isinstance(found, mnserve.ClassPredictions)
    names = [found.classes[label] for label in network.samples.targets]
    right = sum(label == name for label, name in zip(found.labels, names, strict=True))
    print(f"{right} of {len(names)} held-out images are right; the first is {found.labels[0]}")


if __name__ == "__main__":
    main()
