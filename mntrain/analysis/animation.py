"""Animation of a model in the plane: decision map, test points and paths of the neighbors (Fig. 3)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.progress import track

from mntrain.analysis.trajectory import Observer, Trajectory, kept_epochs
from mntrain.atomic_files import write_atomically
from mntrain.errors import ConfigError, TrainingError
from mntrain.plotting.style import INK, class_colors, draw_raster, plain

_SIZE, _DPI, _STILL_DPI = (5.6, 6.0), 100, 180
_PAUSE_MS = 1500  # on the first and the last frame
_NAMED = 12  # classes in the legend
_PALE = 0.62  # share of white in the colours of the map where the model is certain


@dataclass(frozen=True, kw_only=True)
class AnimationOptions:
    """Run, output and speed of an animation.

    Args:
        run: runs/NAME, trained with ``training.keep_every``.
        output: the GIF; None is RUN/animation.gif.
        data_path: where the data lies now, if it has moved.
        frame_ms: milliseconds that each kept epoch is shown.
        stills: also write the first, the middle and the last frame as PNG, beside the GIF.
        quiet: no progress.
    """

    run: Path
    output: Path | None = None
    data_path: str | None = None
    frame_ms: int = 120
    stills: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if not 20 <= self.frame_ms <= 10_000:
            raise ConfigError(f"--frame-ms is {self.frame_ms}; it must be from 20 to 10000 (120 is the default).")
        if self.file.suffix.lower() != ".gif":
            raise ConfigError(f"--output is {str(self.file)!r}; an animation is a .gif file.")

    @property
    def file(self) -> Path:
        """Path of the animation."""
        return self.run / "animation.gif" if self.output is None else self.output


def animate(options: AnimationOptions) -> list[Path]:
    """Draw the animation; returns the files written, the GIF first.

    Raises:
        ArtifactError: the run is not there, is no classifier of points in the plane, or has kept no epochs.
        DataError: its data is not there, or has changed.
        TrainingError: a file cannot be written.
    """
    observer = Observer(options.run, options.data_path)
    weights_of_epochs = kept_epochs(options.run)
    console = Console(stderr=True, quiet=options.quiet)
    silent = options.quiet or not console.is_terminal

    moments = [
        observer.moment(epoch, weights_of_epochs[epoch])
        for epoch in track(list(weights_of_epochs), "looking at epochs", console=console, disable=silent)
    ]
    trajectory = observer.trajectory(moments)
    last = len(moments) - 1
    frames = [
        Image.fromarray(draw_frame(trajectory, index, _DPI))
        for index in track(range(len(moments)), "drawing frames", console=console, disable=silent)
    ]
    durations = [_PAUSE_MS if index in (0, last) else options.frame_ms for index in range(len(frames))]
    files = [options.file]
    try:
        write_atomically(options.file, lambda file: _write_gif(file, frames, durations))
        for name, index in {"first": 0, "middle": last // 2, "last": last}.items() if options.stills else ():
            still = Image.fromarray(draw_frame(trajectory, index, _STILL_DPI))
            files.append(options.file.with_name(f"{options.file.stem}-{name}.png"))
            write_atomically(files[-1], _png_writer(still))
    except OSError as error:
        raise TrainingError(
            f"{files[-1]} cannot be written: {error.strerror or error}; make room, or choose another --output."
        ) from error
    return files


def draw_frame(trajectory: Trajectory, index: int, dpi: int) -> NDArray[np.uint8]:
    """Draw moment ``index`` and the paths that led there as pixels uint8 [height, width, 3]."""
    return draw_raster(lambda figure: draw_moment(figure, trajectory, index), size=_SIZE, dpi=dpi)


def draw_moment(figure: Figure, trajectory: Trajectory, index: int) -> None:
    """Draw decision map, test points, neighbors and their paths of moment ``index`` into an empty figure."""
    moment, colors = trajectory.moments[index], class_colors(len(trajectory.labels))
    axes = figure.subplots()
    axes.grid(visible=False)
    left, right, low, high = trajectory.bounds
    axes.imshow(
        _map_colors(moment.shares, colors), extent=trajectory.bounds, origin="lower", interpolation="bilinear", zorder=0
    )
    if moment.shares.shape[-1] == 2:
        side = moment.shares.shape[0]
        x, y = np.linspace(left, right, side), np.linspace(low, high, side)
        margin = moment.shares[..., 1] - moment.shares[..., 0]
        if margin.min() < 0 < margin.max():
            axes.contour(x, y, margin, levels=[0.0], colors=[INK], linewidths=0.8, alpha=0.7, zorder=1)
    points = trajectory.test.inputs
    predicted = [colors[label] for label in moment.predicted]
    axes.scatter(points[:, 0], points[:, 1], s=20, c=predicted, linewidths=0.4, edgecolors="white", zorder=2)
    wrong = points[moment.predicted != trajectory.test.targets]
    axes.scatter(wrong[:, 0], wrong[:, 1], s=26, facecolors="none", edgecolors=INK, linewidths=0.7, zorder=3)
    if moment.keys is not None:
        _draw_neighbors(axes, trajectory, index, colors)
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.set_xlabel(plain(trajectory.axes[0]))
    axes.set_ylabel(plain(trajectory.axes[1]))
    axes.set_title(f"epoch {moment.epoch},  test accuracy {moment.accuracy:.1%}", fontsize=12)
    _draw_legend(figure, trajectory, colors)


def _draw_neighbors(axes: Axes, trajectory: Trajectory, index: int, colors: list[str]) -> None:
    paths = np.stack([moment.keys for moment in trajectory.moments[: index + 1] if moment.keys is not None])
    axes.plot(paths[:, :, 0], paths[:, :, 1], linestyle=":", color="black", linewidth=0.7, alpha=0.55, zorder=4)
    assert trajectory.classes is not None
    face = [colors[label] for label in trajectory.classes]
    axes.scatter(
        paths[-1, :, 0], paths[-1, :, 1], s=58, c=face, marker="D", edgecolors="white", linewidths=1.1, zorder=5
    )


def _draw_legend(figure: Figure, trajectory: Trajectory, colors: list[str]) -> None:
    from matplotlib.lines import Line2D

    def mark(marker: str, color: str, label: str, size: float, edge: str) -> Line2D:
        return Line2D(
            [],
            [],
            marker=marker,
            color="none",
            markerfacecolor=color,
            markeredgecolor=edge,
            markersize=size,
            label=label,
        )

    marks = [
        mark("o", color, plain(f"predicted {label}", 24), 5, "none")
        for color, label in zip(colors[:_NAMED], trajectory.labels[:_NAMED], strict=True)
    ]
    if (unnamed := len(trajectory.labels) - _NAMED) > 0:
        marks.append(mark("none", "none", f"and {unnamed} more classes", 5, "none"))
    marks.append(mark("o", "none", "wrong", 6, INK))
    if trajectory.classes is not None and trajectory.moments[0].keys is not None:
        marks.append(mark("D", "#777777", "neighbor", 7, "white"))
    # As many columns as the figure has room for.
    for columns in range(len(marks), 0, -1):
        legend = figure.legend(handles=marks, loc="outside lower center", ncols=columns, fontsize=9, handletextpad=0.1)
        if legend.get_window_extent().width <= figure.bbox.width or columns == 1:
            return
        legend.remove()


def _map_colors(shares: NDArray[np.float32], colors: list[str]) -> NDArray[np.float64]:
    """Return the pale colour of the likeliest class at every point; white where no class stands out."""
    palette = np.array([to_rgb(color) for color in colors])
    classes = len(colors)
    certainty = (shares.max(axis=-1, keepdims=True) - 1 / classes) / (1 - 1 / classes)
    mixed = palette[shares.argmax(axis=-1)]
    picture: NDArray[np.float64] = 1 - (1 - mixed) * certainty * (1 - _PALE)
    return picture


def _write_gif(file: Path, frames: list[Image.Image], durations: list[int]) -> None:
    # One palette for all frames: palettes of their own would flicker.
    palette = frames[-1].quantize(colors=255)
    reduced = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    reduced[0].save(file, format="GIF", save_all=True, append_images=reduced[1:], duration=durations, loop=0)


def _png_writer(picture: Image.Image) -> Callable[[Path], None]:
    return lambda file: picture.save(file, format="PNG")
