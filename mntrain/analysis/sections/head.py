"""Section of the run itself: family, data, size and result."""

from pathlib import Path

import yaml

from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section
from mntrain.training.evaluation import metric_of

_FAMILIES = {"vanilla": "vanilla", "meta_neighborhoods": "Meta-Neighborhoods", "maxl": "MAXL"}


def data_name(report_input: ReportInput) -> str:
    """Return the source of the data, or the folder or hub name that it was read from."""
    data = report_input.artifact.config.experiment.data
    return data.source if data.path is None else Path(data.path).name


def _answered(report_input: ReportInput) -> tuple[str, str]:
    """Name what the model answers: its targets, or the number of classes."""
    targets = report_input.targets
    if not targets:
        return "classes", str(len(report_input.labels))
    return "target" if len(targets) == 1 else "targets", ", ".join(targets)


def head_section(report_input: ReportInput) -> Section:
    """Show family, backbone, data, size and result of a run; its configuration folded away."""
    config = report_input.artifact.config
    experiment, metrics = config.experiment, config.metrics
    test = metrics.get("test")
    test = test if isinstance(test, dict) else {}
    parameters = sum(parameter.numel() for parameter in report_input.artifact.model.parameters())
    metric = metric_of(test, experiment.name)
    before = test.get(f"unadapted_{metric.name}")
    before = before if isinstance(before, (int, float)) else None
    ifilm = " + iFiLM" if experiment.backbone.ifilm else ""
    examples = test.get("examples", test.get("images"))
    facts = [
        ("family", _FAMILIES.get(config.family, config.family)),
        ("backbone", f"{experiment.backbone.name}{ifilm}"),
        ("data", data_name(report_input)),
        _answered(report_input),
        ("seed", str(experiment.seed)),
        ("epochs", f"{metrics.get('epochs')}, best {metrics.get('best_epoch')}"),
        ("parameters", f"{parameters:,}"),
        (f"test {metric.name}", metric.text(test[metric.name])),
    ]
    if before is not None:
        facts.append(("before adaptation", metric.text(before)))
    numbers = {
        "name": experiment.name,
        "family": config.family,
        "parameters": parameters,
        "test": test,
    }
    text = f"The test {metric.name} is that of the whole test split, {examples} examples"
    if experiment.training.precision != "32-true":
        text += f", in the precision of training ({experiment.training.precision}); all else on this page is in 32 bits"
    return Section(
        anchor="run",
        title="The run",
        text=(f"{text}.",),
        facts=tuple(facts),
        folded=("Configuration", yaml.safe_dump(experiment.to_dict(), sort_keys=False, allow_unicode=True)),
        numbers=numbers,
    )
