"""Which models a server has to have for its start."""

from __future__ import annotations

from collections.abc import Sequence

from mnserve.errors import StartError
from mnserve.models.catalogue import ModelState
from mnserve.settings import ServeSettings


def check_loaded(settings: ServeSettings, states: Sequence[ModelState]) -> None:
    """Checks that a server has the models that it needs to start.

    Args:
        settings: Settings of the command line.
        states: States of all models.

    Raises:
        StartError: The repository has no model, none can be served, or with ``strict`` one cannot be.
    """
    if settings.model_control != "none" and not settings.strict:
        return  # models may come later
    states = [state for state in states if state.loaded]
    failed = [state for state in states if not state.ready]
    if not states and settings.model_control == "none" and not settings.allow_empty:
        raise StartError(
            f"model repository '{settings.repository}' has no models; put each one into a folder "
            "NAME/1/model.onnx, or start with --allow-empty"
        )
    if failed and len(failed) == len(states):
        reasons = "; ".join(state.reason for state in failed)
        raise StartError(f"no model of '{settings.repository}' can be served: {reasons}")
    if failed and settings.strict:
        reasons = "; ".join(state.reason for state in failed)
        raise StartError(f"--strict is set and not every model can be served: {reasons}")
