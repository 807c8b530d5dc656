"""Checks of an export: each runner with its reference and the difference that is allowed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mnexport.export_source import ExportSource
from mnexport.forms.plan import StaticModel
from mnexport.model_files import ModelFile
from mnexport.parity.runners import Runner, form_runner, onnxruntime_runner, trained_runner
from mnexport.parity.tolerance import Allowance, Approximation, ParityLimits
from mnexport.repository.layout import MODEL_NAME


@dataclass(frozen=True, kw_only=True, eq=False)
class ParityCheck:
    """A runner that must answer as its reference does.

    Args:
        what: name of what is checked.
        runner: its answers.
        reference: name of the reference.
        expected: answers of the reference.
        tolerance: how far they may be apart.
    """

    what: str
    runner: Runner
    reference: str
    expected: Runner
    tolerance: Allowance


def parity_checks(
    source: ExportSource, static: StaticModel, files: Sequence[ModelFile], limits: ParityLimits
) -> tuple[ParityCheck, ...]:
    """List the checks of a static form and its files.

    An exact form and its files must answer as the trained model does. An approximation must come near the trained
    model, and its files must equal the approximation.

    Args:
        source: the trained model.
        static: its static form.
        files: written from the form.
        limits: differences that are allowed.
    """
    deviation = source.target_deviation
    exact = replace(limits.tolerance, unit=deviation)
    approximate = Approximation(limit=limits.approximation_tolerance, unit=deviation)
    of_form: Allowance = approximate if static.approximate else exact
    trained, form = trained_runner(source), form_runner(source, static.module)
    checks = [
        ParityCheck(what="static form", runner=form, reference="trained model", expected=trained, tolerance=of_form)
    ]
    for file in files:
        equals_form = static.approximate and not file.approximates
        checks.append(
            ParityCheck(
                what=check_name(file.path.name),
                runner=onnxruntime_runner(file.path, file.signature),
                reference="static form" if equals_form else "trained model",
                expected=form if equals_form else trained,
                tolerance=exact if equals_form else of_form,
            )
        )
    return tuple(checks)


def check_name(file_name: str) -> str:
    """Name of the check of an ONNX file."""
    return "onnxruntime" if file_name == MODEL_NAME else f"onnxruntime, {file_name}"
