"""Run a comparison from the plan to its files."""

import json

from mntrain.atomic_files import write_text_atomically
from mntrain.comparison.plan import CompareOptions, plan_runs
from mntrain.comparison.plot import draw_comparison
from mntrain.comparison.progress import ComparisonProgress
from mntrain.comparison.results import Comparison, gather
from mntrain.comparison.table import result_tables
from mntrain.comparison.training import train
from mntrain.errors import TrainingError
from mntrain.result_folder import result_folder


def compare(options: CompareOptions) -> Comparison:
    """Train the missing runs, and write ``compare.json``, ``compare.svg`` and ``compare.md``.

    Finished runs of the same configuration are read, not trained again; broken-off runs go on.

    Raises:
        ConfigError: see :func:`mntrain.comparison.plan.plan_runs`.
        TrainingError: no run has finished, or the result cannot be written.
    """
    runs = plan_runs(options)
    with result_folder(options.folder):
        with ComparisonProgress(runs, quiet=options.quiet) as progress:
            failed = train(runs, jobs=options.jobs, logs=options.folder / "logs", watcher=progress)
        if len(failed) == len(runs):
            raise TrainingError(f"No run has finished; the first one says: {next(iter(failed.values()))}")
        comparison = gather(options, runs, failed)
        _write(comparison)
    return comparison


def _write(comparison: Comparison) -> None:
    folder = comparison.options.folder
    text = json.dumps(comparison.to_json(), indent=2, allow_nan=False) + "\n"
    write_text_atomically(folder / "compare.json", text)
    tables = "\n".join(table.markdown() for table in result_tables(comparison))
    write_text_atomically(folder / "compare.md", tables)
    write_text_atomically(folder / "compare.svg", draw_comparison(comparison))
