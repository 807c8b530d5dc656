"""Which options act on which methods, for all commands that take methods."""

from collections.abc import Sequence
from dataclasses import fields

from mntrain.errors import ConfigError
from mntrain.fewshot.registry import METHODS
from mntrain.fewshot.settings import MethodSettings

_TRAINING = "episodic"


def acting_sections(method: str, train: bool) -> tuple[str, ...]:
    """Name the sections of settings that act on a method.

    Args:
        method: its name.
        train: whether methods that may be trained on episodes are.
    """
    entry = METHODS[method]
    own = (entry.section,) if entry.section else ()
    return (*own, _TRAINING) if entry.trains(train) else own


def check_acting(methods: Sequence[str], settings: MethodSettings, *, train: bool, data_path: str | None) -> None:
    """Refuse what would act on none of the methods, since it would be ignored in silence.

    Args:
        methods: names of methods.
        settings: of all methods.
        train: whether methods that may be trained on episodes are.
        data_path: where the data of the run lies now, if it was given.

    Raises:
        ConfigError: an option or a setting acts on nothing.
    """
    named = " and ".join(methods)
    be, have = ("is", "has") if len(methods) == 1 else ("are", "have")
    entries = [METHODS[name] for name in methods]
    if train and all(entry.training == "never" for entry in entries):
        raise ConfigError(f"--train is given, but {named} {be} not trained on episodes; leave it out.")
    could = any(entry.training == "optional" for entry in entries) and not train
    untrained = f"{named} {be} not trained on episodes{' without --train; add it, or' if could else ';'}"
    if data_path is not None and not any(entry.trains(train) for entry in entries):
        raise ConfigError(
            f"--data-path is given, which is read for training on episodes alone, but {untrained} leave it out."
        )
    acting = {section for name in methods for section in acting_sections(name, train)}
    defaults = MethodSettings()
    for name in (one.name for one in fields(defaults)):
        if name not in acting and getattr(settings, name) != getattr(defaults, name):
            why = untrained if name == _TRAINING else f"{named} {have} no use for it;"
            raise ConfigError(f"--{name}.* is given, but {why} leave it out.")
