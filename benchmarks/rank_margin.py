"""Compare the largest error on a whole test set with that on the images by which a rank was chosen.

    python benchmarks/rank_margin.py --data.path CIFAR10 runs/cifar10-mn-seed0/artifact build/price/convnet4-10-5000
    python benchmarks/rank_margin.py --data.path CIFAR10 build/price/resnet29-10-5000 --shares 0.5 0.25 --json m.json

A low-rank form takes the fewest directions that keep the artifact's own images within a share of the tolerance
(mnexport/forms/low_rank/rank.py). Prints for every share the rank, the largest error of a probability on those images
and on the test set, and the ratio of the two; with keys in full, and in 8 bits as in `cpu.onnx`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common.calibration import features_of
from common.figures import write_json
from common.options import add_json, positive_number, script_parser
from rich.console import Console
from torch import Tensor, nn

from mnexport.forms.low_rank.choice import low_rank
from mnexport.forms.low_rank.queries import AdaptationSetting, RankLimits, largest_error
from mnexport.forms.low_rank.rank import SHARE, RankRule
from mnexport.forms.plan import Calibration, FormPlan
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.errors import MnTrainError
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.result_table import ResultTable
from mntrain.training.artifact_data import load_data

_BATCH = 500


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("artifacts", type=Path, nargs="+", help="trained models of the Meta-Neighborhoods family")
    parser.add_argument("--data.path", dest="data", help="where their data lies, if not where it was trained on")
    parser.add_argument("--shares", type=positive_number, nargs="+", default=[0.5, 1 / 3, SHARE], metavar="SHARE")
    parser.add_argument("--tolerance", type=positive_number, default=1e-3, help="of a probability (1e-3)")
    add_json(parser)
    arguments = parser.parse_args()
    try:
        records = [
            {"artifact": str(path), **record}
            for path in arguments.artifacts
            for record in _records(path, arguments.data, arguments.shares, arguments.tolerance)
        ]
    except MnTrainError as error:
        print(error, file=sys.stderr)
        return 1
    table = ResultTable(
        headings=("artifact", "share", "keys", "rank", "artifact's images", "test set", "times"),
        rows=[_row(record) for record in records],
        caption=f"Largest error of a probability; a share of the tolerance {arguments.tolerance:g} is kept on the "
        "artifact's images.",
    )
    table.show(Console(), title="errors of an approximation on images that nobody has seen")
    write_json(arguments.json, records)
    return 0


@torch.no_grad()
def _records(path: Path, data: str | None, shares: list[float], tolerance: float) -> Iterator[dict[str, Any]]:
    print(path, file=sys.stderr, flush=True)
    artifact = load_artifact(path)
    if not isinstance(artifact, ImageArtifact) or not isinstance(artifact.model, MetaNeighborhoods):
        raise MnTrainError(f"{path} is not a Meta-Neighborhoods model of images.")
    model, calibration = artifact.model.eval(), Calibration.halves(artifact.samples.inputs, str(path))
    if calibration is None:
        raise MnTrainError(f"{path} holds fewer than two images of its own.")
    fitted, held_out, test = (
        features_of(model.backbone, artifact.preprocessing, images)
        for images in (calibration.fitted, calibration.held_out, load_data(artifact.config, data).part("test").inputs)
    )
    setting = AdaptationSetting.of(model)
    for share in shares:
        rule = RankRule(tolerance=tolerance, share=share)
        exact = low_rank(model, fitted, held_out, RankLimits(rule, FormPlan().table_limit))
        for keys, form in (("float32", exact), ("int8", exact and exact.integer)):
            if form is None:
                yield {"share": share, "keys": keys, "rank": None}
                continue
            yield {
                "share": share,
                "keys": keys,
                "rank": form.rank,
                "known": _worst(setting, form.head, torch.cat([fitted, held_out])),
                "test": _worst(setting, form.head, test),
            }


def _worst(setting: AdaptationSetting, head: nn.Module, features: Tensor) -> float:
    return max(largest_error(head(part), setting.queries(part)) for part in torch.split(features, _BATCH))


def _row(record: dict[str, Any]) -> list[str]:
    start = [record["artifact"], f"{record['share']:.2f}", record["keys"]]
    if record["rank"] is None:
        return [*start, "none", "", "", ""]
    calibration, test = record["known"], record["test"]
    return [*start, str(record["rank"]), f"{calibration:.2e}", f"{test:.2e}", f"{test / calibration:.1f}"]


if __name__ == "__main__":
    raise SystemExit(main())
