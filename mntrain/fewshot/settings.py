"""Settings of all methods, and their words on a command line."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from mntrain.errors import ConfigError
from mntrain.fewshot.episodic import EpisodicSettings
from mntrain.fewshot.finetuning import FinetuneSettings
from mntrain.fewshot.maml import InnerSettings
from mntrain.fields.parsing import FieldParser
from mntrain.fields.suggestion import nearest


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """Settings in sections.

    Args:
        finetune: of finetune, static-nsn and dynamic-nsn.
        episodic: of training on episodes.
        maml: steps of maml.
        meta_static: steps of meta-static-nsn, by default those of the paper.
    """

    finetune: FinetuneSettings = field(default_factory=FinetuneSettings)
    episodic: EpisodicSettings = field(default_factory=EpisodicSettings)
    maml: InnerSettings = field(default_factory=InnerSettings)
    meta_static: InnerSettings = field(default_factory=lambda: InnerSettings(step_size=0.2, classifier_steps=20))


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part words of a command line: those of ``--data.X`` with their values, and all others."""
    of_data: list[str] = []
    others: list[str] = []
    taken = others
    for word in words:
        if word.startswith("--"):
            taken = of_data if word.startswith("--data.") else others
        taken.append(word)
    return of_data, others


def parse_settings(words: Sequence[str], command: str = "mntrain fewshot") -> MethodSettings:
    """Read settings such as ``--finetune.epochs 50``.

    Args:
        words: of a command line.
        command: that they were given to, for messages.

    Raises:
        ConfigError: a word is no setting, or its value cannot be.
    """
    defaults = MethodSettings()
    sections = {section.name: getattr(defaults, section.name) for section in fields(defaults)}
    known = [f"--{name}.{setting.name}" for name, section in sections.items() for setting in fields(section)]
    for word in words:
        name = word.partition("=")[0]
        if word.startswith("--") and name not in known:
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else f"settings are {', '.join(known)}."
            raise ConfigError(f"{name} is no setting of `{command}`; {hint}")
    parser = FieldParser(command)
    for name, section in sections.items():
        parser.add_class_arguments(type(section), name, instantiate=False)
    given: dict[str, Any] = parser.parse_args(list(words), defaults=False).as_dict()
    return replace(defaults, **{name: replace(sections[name], **values) for name, values in given.items() if values})
