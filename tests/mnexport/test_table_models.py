"""Models of rows: trained, but not exported yet."""

from pathlib import Path

import pytest

from mnexport.cli import main
from mntrain.config import load_experiment
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions


@pytest.mark.parametrize("words", [[], ["--parity", "test"], ["--vanilla"]])
def test_a_model_of_rows_is_refused_in_one_sentence(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    config = load_experiment("spiral", ["--data.rows", "100", "--training.epochs", "1", "--name", "rows"])
    fit(config, FitOptions(runs=tmp_path, quiet=True))
    assert main([str(tmp_path / "rows" / "artifact"), str(repository / "m"), *words]) == 2
    out, err = capsys.readouterr()
    assert "export of table models is not built yet" in err
    assert "Traceback" not in out + err
    assert list(repository.iterdir()) == []
