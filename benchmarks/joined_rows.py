"""Call models whose rows depend on each other from many callers at once: no answer may be mixed with another.

    python benchmarks/joined_rows.py
    python benchmarks/joined_rows.py --only cumsum attention --calls 2000 --json joined.json

Serves small models (running sums, attention, sorting, statistics over the rows, …), each in four forms: without a
config.pbtxt, with `max_batch_size: 0` alone in it, with all tensors and no max_batch_size, and loaded by
RepositoryModelLoad with {"max_batch_size": 0}. Callers send requests of 1 to 4 rows at once, and every answer is
compared with ONNX Runtime alone. Models with independent rows are there to show that those are joined still.

Exits 1 if an answer is wrong or refused, or if independent rows are not joined without a config.pbtxt.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tritonclient.grpc as triton
from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, positive_integer, script_parser
from joining.callers import Load, call_at_once
from joining.forms import FORMS, Form
from joining.models import EXAMPLES
from onnx_suite.outcomes import kind_of_reason
from rich.console import Console
from tritonclient.utils import InferenceServerException

from mnserve.bench.machine import describe_machine
from mnserve.bench.server_process import server_process
from mntrain.result_table import ResultTable


@dataclass(frozen=True, kw_only=True)
class Result:
    """Calls of one model in one form.

    Attributes:
        model: name of the example.
        form: name of the form.
        max_batch_size: most rows that the server joins; 0 for one request at a time.
        outcomes: number of calls by outcome.
    """

    model: str
    form: str
    max_batch_size: int
    outcomes: Counter[str]

    @property
    def fault(self) -> bool:
        """Tell whether a call went wrong, or rows that may be joined are not."""
        kept_apart = self.form == "none" and EXAMPLES[self.model].independent and self.max_batch_size == 0
        return kept_apart or set(self.outcomes) != {"right"}


def main() -> int:
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=EXAMPLES, default=list(EXAMPLES), metavar="MODEL", help="(all)")
    parser.add_argument("--callers", type=positive_integer, default=8, help="(8)")
    parser.add_argument("--calls", type=positive_integer, default=400, help="of each caller (400)")
    add_json(parser)
    arguments = parser.parse_args()
    load = Load(callers=arguments.callers, calls=arguments.calls)
    results = [result for form in FORMS for result in _call_all(form, arguments.only, load)]
    _show(results)
    record = [{**vars(result), "outcomes": dict(result.outcomes)} for result in results]
    write_json(arguments.json, {"machine": asdict(describe_machine()), "load": asdict(load), "results": record})
    return 1 if any(result.fault for result in results) else 0


def _call_all(form: Form, names: Sequence[str], load: Load) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            form.write(Path(folder), name, EXAMPLES[name].model())
        words = ["--log-level", "error", *form.words]
        with (
            server_process(Path(folder), words) as address,
            triton.InferenceServerClient(address) as client,
        ):
            for name in names:
                try:
                    form.load(client, name)
                    rows = int(client.get_model_config(name).config.max_batch_size)
                except InferenceServerException as error:  # the model is not ready
                    yield Result(model=name, form=form.name, max_batch_size=0, outcomes=Counter([error.message()]))
                else:
                    outcomes = call_at_once(address, name, EXAMPLES[name], load)
                    yield Result(model=name, form=form.name, max_batch_size=rows, outcomes=outcomes)


def _show(results: Sequence[Result]) -> None:
    rows = []
    for result in sorted(results, key=lambda result: list(EXAMPLES).index(result.model)):
        wrong, right = result.outcomes["wrong"], result.outcomes["right"]
        refused = result.outcomes.total() - wrong - right
        reasons = {kind_of_reason(outcome) for outcome in result.outcomes if outcome not in ("right", "wrong")}
        figures = [result.max_batch_size, right, wrong, refused]
        rows.append([result.model, result.form, *map(str, figures), "; ".join(sorted(reasons))])
    caption = f"{sum(result.fault for result in results)} of {len(results)} rows have a fault."
    headings = ("model", "form", "max_batch_size", "right", "wrong", "refused", "reasons")
    ResultTable(headings=headings, rows=rows, caption=caption).show(Console(), title="joined_rows")


if __name__ == "__main__":
    raise SystemExit(main())
