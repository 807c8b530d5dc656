"""Commands and public names on a machine that lacks their extra: one sentence with the command that installs it."""

import re
import subprocess
import sys

import pytest

# Modules of the extras that are not among those of `serve`, and the other way round.
TRAINING = (
    *("torch", "lightning_fabric", "torchmetrics", "datasets", "pyarrow", "pandas", "kornia", "sklearn", "scipy"),
    *("safetensors", "filelock", "tensorboard", "jinja2"),
)
EXPORT = ("onnx", "onnxscript")
SERVING = (
    *("grpc", "grpc_health", "grpc_reflection", "onnxruntime", "prometheus_client"),
    *("uvicorn", "starlette", "httptools", "orjson", "python_multipart", "cachetools"),
)

BLOCK = """
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def python(missing: tuple[str, ...], script: str) -> subprocess.CompletedProcess[str]:
    """Run a script where the modules cannot be imported."""
    code = BLOCK.format(modules=missing) + script
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def command(missing: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m`` where the modules cannot be imported."""
    return python(missing, f"sys.argv = {list(words)!r}; runpy.run_module(sys.argv[0], run_name='__main__')")


@pytest.mark.parametrize(
    ("missing", "words", "package", "extra"),
    [
        ((*TRAINING, *EXPORT), ("mntrain", "fit", "digits"), "torch", "train"),
        (("onnx",), ("mntrain", "features", "classifier.onnx", "stores/a"), "onnx", "export"),
        (("transformers",), ("mntrain", "features", "hf:a/b", "stores/a"), "transformers", "huggingface"),
        ((*TRAINING, *EXPORT), ("mnexport", "runs/a/artifact", "repository/a"), "onnx", "export"),
        (SERVING, ("mnserve", "serve", "repository"), f"({'|'.join(SERVING)})", "serve"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(
    missing: tuple[str, ...], words: tuple[str, ...], package: str, extra: str
) -> None:
    done = command(missing, *words)
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"{words[0]}: ")
    assert re.search(f"the package {package}, which .* needs, is not installed", sentence)
    assert f"pip install '.[{extra}]'" in sentence
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("missing", "package", "name", "extra"),
    [
        (TRAINING, "mntrain", "fit", "train"),
        (TRAINING, "mnexport", "export", "export"),
        (SERVING, "mnserve", "Client", "serve"),
    ],
)
def test_a_public_name_is_an_import_error_with_the_extra(
    missing: tuple[str, ...], package: str, name: str, extra: str
) -> None:
    script = f"""
try:
    from {package} import {name}
except ImportError as error:
    print(error)
"""
    done = python(missing, script)
    assert done.returncode == 0, done.stderr
    assert f"which {package}.{name} needs, is not installed" in done.stdout
    assert f"pip install '.[{extra}]'" in done.stdout


def test_help_needs_no_extra() -> None:
    for words in (("mntrain", "fit", "--help"), ("mnexport", "--help"), ("mnserve", "--help")):
        done = command((*TRAINING, *EXPORT, *SERVING), *words)
        assert done.returncode == 0, done.stderr
        assert "usage:" in done.stdout


def test_a_module_of_ours_that_is_missing_keeps_its_traceback() -> None:
    script = "sys.modules['mntrain.config'] = None; sys.argv = ['mntrain', 'recipes'];"
    done = python((), script + "runpy.run_module('mntrain', run_name='__main__')")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
