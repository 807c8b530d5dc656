"""Progress of a cross-validation."""

from mntrain.crossval.plan import CrossvalOptions
from mntrain.crossval.training import FoldOutcome
from mntrain.run_progress import RunProgress


class CrossvalProgress(RunProgress):
    """Counts the runs of the search and of all folds, and describes each when it has ended."""

    def __init__(self, options: CrossvalOptions) -> None:
        searched = len(options.architectures) if options.search and options.networks else 0
        searched += len(options.networks) * len(options.decays)
        # The run of the first fold is one of those searched, and counts twice.
        total = len(options.recipes) * (searched + options.folds * len(options.families))
        super().__init__(total, quiet=options.quiet)

    def ended(self, outcome: FoldOutcome) -> None:
        """Describe a run of a network that has ended."""
        result = outcome.result
        if result is None:
            self.finish_run(f"{outcome.run.label} failed: {outcome.reason}")
            return
        how = "was there already" if outcome.reused else f"{result['epochs']} epochs, {result['train_seconds']:.1f} s"
        errors = f"validation mse {result['validation']['mse']:.4f}, test mse {result['test']['mse']:.4f}"
        self.finish_run(f"{outcome.run.label}: {errors} ({how})")
