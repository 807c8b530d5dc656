"""Settings of all methods, and their words on a command line."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mntrain.fewshot.episodic import EpisodicSettings
from mntrain.fewshot.finetuning import FinetuneSettings
from mntrain.fewshot.maml import InnerSettings, SimilaritySteps
from mntrain.fields.sections import parse_sections


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
    meta_static: SimilaritySteps = field(default_factory=SimilaritySteps)


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
    return parse_sections(MethodSettings(), words, command)
