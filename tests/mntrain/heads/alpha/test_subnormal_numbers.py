"""Numbers too small for full precision are 0 while coefficients are trained, and numbers again behind it."""

from __future__ import annotations

import pytest
import torch

from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.problem import AlphaProblem
from mntrain.heads.alpha.stage import compose_few_classes
from mntrain.heads.alpha.training import _subnormal_as_zero


def _is_zero() -> bool:
    return float(torch.tensor(1e-38) * 0.1) == 0.0


def test_subnormal_numbers_are_zero_in_the_block_alone() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot take subnormal numbers as 0")
    assert not _is_zero()
    with _subnormal_as_zero():
        assert _is_zero()
    assert not _is_zero()


def test_a_setting_of_the_program_stays() -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot take subnormal numbers as 0")
    try:
        with pytest.raises(ValueError, match="stop"), _subnormal_as_zero():
            raise ValueError("stop")
        assert _is_zero()
    finally:
        torch.set_flush_denormal(False)


def test_coefficients_are_trained_so(problem: AlphaProblem) -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot take subnormal numbers as 0")
    found: list[bool] = []
    compose_few_classes(problem, AlphaConfig(epochs=2), 0, lambda epoch: found.append(_is_zero()))
    assert found == [True, True]
    assert not _is_zero()
