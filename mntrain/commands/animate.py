"""``mntrain animate``: how a model in the plane learns."""

import argparse
import json
from pathlib import Path
from typing import Any

from mntrain.commands.parsing import add_command

_EPILOG = """\
For classifiers of points in the plane whose run has kept epochs (training.keep_every):

  mntrain fit spiral
  mntrain animate runs/spiral-meta-neighborhoods
  mntrain animate runs/spiral-meta-neighborhoods --output spiral.gif --stills
  mntrain fit my-points.yaml --data.path points.csv --data.target class --training.keep_every 1

Every frame shows the decision map, the test points in the colour of their prediction, and the learned neighbors in
the colour of their class with the path they have come. --stills adds the first, the middle and the last frame as PNG.
"""


def add(commands: Any) -> None:
    """Join the command line."""
    parser = add_command(
        commands,
        "animate",
        summary="an animation of a model in the plane and of its neighbors",
        description="Animate how the decision map and the learned neighbors of a run move, epoch by epoch.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run (runs/NAME)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the GIF (RUN/animation.gif)")
    parser.add_argument("--data-path", metavar="PATH", help="where the data lies now, if it has moved")
    parser.add_argument("--frame-ms", type=int, default=120, metavar="N", help="milliseconds for each epoch (120)")
    parser.add_argument("--stills", action="store_true", help="also write first, middle and last frame as PNG")
    parser.add_argument("--json", action="store_true", help="print the files as JSON, and no progress")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from mntrain.analysis.animation import AnimationOptions, animate

    files = animate(
        AnimationOptions(
            run=arguments.run,
            output=arguments.output,
            data_path=arguments.data_path,
            frame_ms=arguments.frame_ms,
            stills=arguments.stills,
            quiet=arguments.json,
        )
    )
    if arguments.json:
        print(json.dumps({"files": [str(file) for file in files]}))
    else:
        for file in files:
            print(f"written {file}")
    return 0
