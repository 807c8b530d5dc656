"""Command ``mntrain animate``: animate the training of a model in the plane."""

import json
from dataclasses import dataclass

from mntrain.commands.command import Command
from mntrain.commands.options import Count, DataPath, FilePath, RunPath
from mntrain.terminal_text import printable

_EPILOG = """\
For classifiers of points in the plane whose run has kept epochs (training.keep_every):

  mntrain fit spiral
  mntrain animate runs/spiral-meta-neighborhoods
  mntrain animate runs/spiral-meta-neighborhoods --output spiral.gif --stills
  mntrain fit my-points.yaml --data.path points.csv --data.target class --training.keep_every 1

Every frame shows the decision map, the test points in the colour of their prediction, and the learned neighbors in
the colour of their class with the path they have come. --stills adds the first, the middle and the last frame as PNG.
"""


@dataclass(frozen=True, kw_only=True)
class AnimateCommand:
    """Options of ``mntrain animate``.

    Args:
        run: folder of the run (runs/NAME)
        output: the GIF (RUN/animation.gif)
        data_path: where the data lies now, if it has moved
        frame_ms: milliseconds for each epoch
        stills: also write first, middle and last frame as PNG
        json: print the files as JSON, and no progress
    """

    run: RunPath
    output: FilePath | None = None
    data_path: DataPath | None = None
    frame_ms: Count = 120
    stills: bool = False
    json: bool = False


def run(command: AnimateCommand) -> int:
    """Write the animation; returns the exit code."""
    from mntrain.analysis.animation import AnimationOptions, animate

    files = animate(
        AnimationOptions(
            run=command.run,
            output=command.output,
            data_path=command.data_path,
            frame_ms=command.frame_ms,
            stills=command.stills,
            quiet=command.json,
        )
    )
    if command.json:
        print(json.dumps({"files": [str(file) for file in files]}))
    else:
        for file in files:
            print(printable(f"written {file}"))
    return 0


COMMAND = Command(
    options=AnimateCommand,
    run=run,
    summary="an animation of a model in the plane and of its neighbors",
    description="Animate how the decision map and the learned neighbors of a run move, epoch by epoch.",
    epilog=_EPILOG,
)
