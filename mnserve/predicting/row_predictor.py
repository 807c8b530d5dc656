"""Prediction of the rows of a table in batches: every row ends as an answer or as a failure, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mnserve.errors import AnswerTimeoutError, MnServeError, RowError, RowFileError, ServerUnreachableError
from mnserve.predicting.models import CalledModel
from mnserve.predicting.row_answers import RowAnswer, RowAnswers
from mnserve.predicting.row_decimals import decimal_mark
from mnserve.predicting.row_file import RowFile, TableRow
from mnserve.predicting.row_values import RowReader, RowValues, encode, unknown_notes
from mnserve.repository.row_layout import TableLayout

_UNREACHED: Final = "it was not tried, as no server answered"


@dataclass(frozen=True, kw_only=True)
class RowOutcome:
    """A row with its answer, or the reason why it has none."""

    row: TableRow
    answer: RowAnswer | None = None
    reason: str = ""


class RowPredictor:
    """Predicts tables with one model.

    Args:
        model: The model, on a server or in this process.
        layout: Columns of the model.
        answers: Reader of its answers.
    """

    def __init__(self, model: CalledModel, layout: TableLayout, answers: RowAnswers) -> None:
        self._model = model
        self._layout = layout
        self._answers = answers
        self._max_rows = model.config.max_batch_size or 1
        self._unreachable = ""
        self._unknown: dict[str, dict[str, int]] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions and unknown categories, as sentences for the user; complete once all rows are done."""
        return (*self._answers.notes, *unknown_notes(self._layout, self._unknown))

    def predict(self, file: RowFile) -> Iterator[RowOutcome]:
        """Yields one outcome for each row of a table.

        Raises:
            RowFileError: A column is missing, or the file cannot be read any further; rows before it are answered.
        """
        file.positions(self._layout.columns)
        reader = RowReader(self._layout, file, decimal_mark(file.source, self._layout))
        rows = iter(file.rows)
        broken: RowFileError | None = None
        while broken is None:
            batch: list[TableRow] = []
            try:
                while len(batch) < self._max_rows:
                    batch.append(next(rows))
            except StopIteration:
                if not batch:
                    break
            except RowFileError as error:
                broken = error
            yield from self._batch(reader, batch)
        for name, counts in reader.unknown.items():
            known = self._unknown.setdefault(name, {})
            known.update({value: known.get(value, 0) + count for value, count in counts.items()})
        if broken is not None:
            raise broken

    def _batch(self, reader: RowReader, rows: Sequence[TableRow]) -> Iterator[RowOutcome]:
        values: dict[int, RowValues] = {}
        reasons: dict[int, str] = {}
        for position, row in enumerate(rows):
            try:
                values[position] = reader.read(row)
            except RowError as error:
                reasons[position] = str(error)
        answers = self._answer(list(values.values()))
        outcomes = dict(zip(values, answers, strict=True))
        for position, row in enumerate(rows):
            answer = outcomes.get(position, reasons.get(position, ""))
            yield (
                RowOutcome(row=row, reason=answer) if isinstance(answer, str) else RowOutcome(row=row, answer=answer)
            )

    def _answer(self, rows: Sequence[RowValues]) -> Sequence[RowAnswer | str]:
        """Runs rows in one call, or one by one where it fails: an answer or a reason for each."""
        if self._unreachable or not rows:
            return [_UNREACHED] * len(rows)
        try:
            outputs = self._model.infer(encode(self._layout, rows), self._answers.outputs)
            return self._answers.read(outputs, len(rows))
        except ServerUnreachableError as error:
            self._unreachable = str(error)
            return [f"not predicted, as {error}", *[_UNREACHED] * (len(rows) - 1)]
        except MnServeError as error:
            if len(rows) == 1 or isinstance(error, AnswerTimeoutError):
                return [str(error)] * len(rows)
            # One row may be at fault, or the batch too large: each row gets a call of its own.
            return [answer for row in rows for answer in self._answer([row])]
