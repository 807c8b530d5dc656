"""What the run is."""

import yaml

from mntrain.analysis.sections.content import Section
from mntrain.analysis.subject import Subject
from mntrain.comparison.metric import metric_of

_FAMILIES = {"vanilla": "vanilla", "meta_neighborhoods": "Meta-Neighborhoods"}


def head_section(subject: Subject) -> Section:
    """Family, backbone, data, size and result of a run; its configuration folded away."""
    config = subject.artifact.config
    experiment, metrics = config.experiment, config.metrics
    test = metrics.get("test", {})
    metric = metric_of(test, experiment.name)
    before = test.get(f"unadapted_{metric.name}")
    ifilm = " + iFiLM" if experiment.backbone.ifilm else ""
    examples = test.get("examples", test.get("images"))
    facts = [
        ("family", _FAMILIES.get(config.family, config.family)),
        ("backbone", f"{experiment.backbone.name}{ifilm}"),
        ("data", str(experiment.data.source)),
        ("classes", str(len(config.labels))),
        ("seed", str(experiment.seed)),
        ("epochs", f"{metrics.get('epochs')}, best {metrics.get('best_epoch')}"),
        ("parameters", f"{metrics.get('parameters', 0):,}"),
        (f"test {metric.name}", metric.show(test[metric.name])),
    ]
    if before is not None:
        facts.append(("before adaptation", metric.show(before)))
    numbers = {
        "name": experiment.name,
        "family": config.family,
        "parameters": metrics.get("parameters"),
        "test": test,
    }
    return Section(
        anchor="run",
        title="The run",
        text=(f"The test {metric.name} is that of the whole test split, {examples:,} examples.",),
        facts=tuple(facts),
        folded=("Configuration", yaml.safe_dump(experiment.to_dict(), sort_keys=False, allow_unicode=True)),
        numbers=numbers,
    )
