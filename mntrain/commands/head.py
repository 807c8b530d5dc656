"""Command ``mntrain head``: a better last layer for a network that is trained already."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mntrain.commands.command import Command
from mntrain.commands.lists import names, whole_numbers
from mntrain.commands.options import FolderPath, Option, OtherWords

_EPILOG = """\
methods:
  joint      linear probe, every row alike; the network's own last layer with --head.base network
  logistic   logistic regression, converged, C chosen on the validation rows: the reference
  knn        k nearest training rows (scores only, no artifact)
  svm        support vector machine with an RBF kernel (scores only, no artifact)
  mlp        perceptron with a hidden layer of --head.hidden units (scores only, no artifact)
  ncm        nearest class mean by the cosine, as a linear layer
  meta-neighborhoods
             adapted to every row by its neighbors in a learned dictionary, started from logistic regression
  crt        new classifier, rows drawn class by class
and changes of a linear classifier, joint's or that of the method after a hyphen, as in bias-crt:
  lws        one learned scale for each class
  tau        weights divided by their norm to the power τ
  bias       control: a constant on the biases of classes of few examples
  fixed      control: fixed coefficients of the nearest larger classes
  alpha      Alpha Net: learned coefficients of the nearest larger classes, as in alpha-crt

examples:

  mntrain head joint,logistic,crt features/flowers
  mntrain head crt features/flowers --head.few 30 --name flowers-balanced
  mntrain head alpha-crt,alpha-lws features/flowers --alpha.gamma 0.6 --alpha.sweep both
  mntrain head joint,ncm,tau,crt,lws,bias,fixed features/lt-seed0 features/lt-seed1 features/lt-seed2
  mntrain head logistic,meta-neighborhoods features/flowers --meta_neighborhoods.entries 1000 --training.epochs 100
  mnexport runs/flowers-crt/artifact repository/flowers

Settings are --head.X: base, many, few, choose, epochs, least_steps, batch_size, learning_rate, momentum, weight_decay,
sampling, hidden, neighbors, constant and coefficient; those of Alpha Net are --alpha.X (docs/alpha-net.md).
meta-neighborhoods takes fields of the recipe `features`, as --meta_neighborhoods.X and --training.X
(`mntrain fit features --fields`). Methods are compared store by store.
"""


@dataclass(frozen=True, kw_only=True)
class HeadCommand:
    """Options of ``mntrain head``.

    Args:
        methods: methods, see below
        features: folders that `mntrain features` has written
        words: settings of the methods (--head.X, --alpha.X)
        seeds: seeds of every method on every store, averaged within it where there are several stores
        name: start of the names of runs (that of the store)
        runs: folder of all runs
        output: folder of the comparison of several heads (RUNS/heads-NAME)
        baseline: method that differences are taken to (joint, else the first)
        overwrite: replace earlier runs of the same names
        json: print the result as JSON, and no progress
    """

    methods: Annotated[str, Option(metavar="METHOD[,METHOD]")]
    features: tuple[Annotated[Path, Option(metavar="FEATURES")], ...]
    words: OtherWords = ()
    seeds: Annotated[tuple[int, ...], Option(metavar="A,B", parse=whole_numbers("--seeds", "0,1,2"))] = (0,)
    name: Annotated[str, Option(metavar="NAME")] | None = None
    runs: FolderPath = Path("runs")
    output: FolderPath | None = None
    baseline: Annotated[str, Option(metavar="METHOD")] | None = None
    overwrite: bool = False
    json: bool = False


def run(command: HeadCommand) -> int:
    """Make the heads, and print their scores; returns the exit code."""
    from mntrain.heads.comparison_files import comparison_table
    from mntrain.heads.methods.meta_neighborhoods import separate_words
    from mntrain.heads.methods.registry import find_methods
    from mntrain.heads.session import HeadOptions, compare_heads
    from mntrain.heads.settings import parse_head_settings

    own, fitted = separate_words(command.words)
    options = HeadOptions(
        methods=find_methods(names(command.methods)),
        stores=command.features,
        seeds=command.seeds,
        settings=parse_head_settings(own),
        fit_words=fitted,
        runs=command.runs,
        name=command.name,
        output=command.output,
        baseline=command.baseline,
        overwrite=command.overwrite,
        quiet=command.json,
    )
    comparison = compare_heads(options)
    if command.json:
        print(json.dumps(comparison.to_json(), allow_nan=False))
        return 0
    from rich.console import Console

    written = options.comparison_folder or options.folders()[0]
    notes = [f"written to {written}"]
    bare = dict.fromkeys(record["method"] for record in comparison.records if not record["artifact"])
    notes += [f"{method}: no artifact, since this head is not linear; its scores are kept" for method in bare]
    comparison_table(comparison).show(Console(), title="test accuracy of heads", notes=notes)
    return 0


COMMAND = Command(
    options=HeadCommand,
    run=run,
    summary="a better last layer on stored features of a trained network",
    description="Make a new last layer on stored features of a frozen network, by one method or several, and write it "
    "as an artifact that `mntrain evaluate`, `mnexport` and `mnserve` take.",
    epilog=_EPILOG,
)
