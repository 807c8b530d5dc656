"""Training of predicted similarities: products over blocks of positions that fit a cache, with their own gradient.

Autograd over :mod:`mntrain.layers.similarity.apply` keeps K masked copies of every map and passes memory many times.
Here the patches of a block are laid out, multiplied and dropped, and laid out again for the gradient: a third of the
time on a CPU, and the memory of an ordinary convolution.

Shapes: maps x [B, C, H, W], kernel w [O, C, k, k], K = k² taps, answers y [B, O, H', W'], N positions of a block;
similarities [B, n, H', W'], n = K (diagonal) or K² (unconstrained); patches p and mixed patches q [N, K, C]:

    q_i = Σ_j M_ij p_j,    y = Σ_i w_iᵀ q_i
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad

from mntrain.layers.similarity.apply import Window, by_taps, diagonal_product, taps_of, unconstrained_product

_CPU_BYTES = 2 << 20
"""Bytes of a block's patches for each thread: about a second-level cache. Half and twice of it are as fast."""
_DEVICE_BYTES = 1 << 28
"""The same for a GPU, where few large kernels are better."""

_Product = Callable[[Tensor, Tensor, Tensor, Window], Tensor]
_Places = tuple[slice, slice]
"""Images and rows of a block."""


def predicted_product(maps: Tensor, weight: Tensor, similarity: Tensor, window: Window) -> Tensor:
    """Convolve with a similarity of each position, as ``diagonal_product`` or ``unconstrained_product`` do.

    Groups, compiled code and forward-mode derivatives take those themselves; so do second derivatives.

    Args:
        maps: x.
        weight: w.
        similarity: [B, K, H', W'] or [B, K·K, H', W'].
        window: of the kernel.
    """
    inputs = _in_one_dtype(maps, weight, similarity)
    if window.groups > 1 or torch.compiler.is_compiling() or _has_tangent(*inputs):
        return _by_definition(similarity, window)(*inputs, window)
    answers: Tensor = _BlockProduct.apply(*inputs, window)  # type: ignore[no-untyped-call]
    return answers


def _by_definition(similarity: Tensor, window: Window) -> _Product:
    return diagonal_product if similarity.shape[1] == window.kernel**2 else unconstrained_product


def _in_one_dtype(maps: Tensor, weight: Tensor, similarity: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bring tensors to the dtype of autocast where it is on, which does not look into a gradient of one's own."""
    device = maps.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return maps, weight, similarity
    dtype = torch.get_autocast_dtype(device)
    return maps.to(dtype), weight.to(dtype), similarity.to(dtype)


def _has_tangent(*tensors: Tensor) -> bool:
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)  # type: ignore[no-untyped-call]


class _Patches(ABC):
    """Patches of maps, block by block of positions.

    Args:
        maps: x.
        similarity: [B, n, H', W'].
        window: of the kernel, without groups.
    """

    def __init__(self, maps: Tensor, similarity: Tensor, window: Window) -> None:
        padded = pad(maps.contiguous(memory_format=torch.channels_last), (window.padding,) * 4)
        self.window, self._channels = window._replace(padding=0), maps.shape[1]
        self.similarity = similarity.permute(0, 2, 3, 1).contiguous()  # [B, H', W', n]
        self.pixels = self._overlapping(padded)
        self._block = self._block_size(padded)
        self._buffers: dict[str, Tensor] = {}

    def _overlapping(self, padded: Tensor) -> Tensor:
        """View of the patch of each position [B, H', W', k, k, C]; to be read alone, since patches overlap."""
        image, channel, row, column = padded.stride()
        side, stride, _, dilation, _ = self.window
        return padded.as_strided(
            (*self.similarity.shape[:3], side, side, self._channels),
            (image, row * stride, column * stride, row * dilation, column * dilation, channel),
        )

    def _block_size(self, padded: Tensor) -> tuple[int, int]:
        limit = _DEVICE_BYTES if padded.is_cuda else _CPU_BYTES * torch.get_num_threads()
        _, height, width, _ = self.similarity.shape
        row = width * self.window.kernel**2 * self._channels * padded.element_size()
        images = limit // (row * height)
        return (images, height) if images else (1, max(1, limit // row))

    def blocks(self) -> Iterator[_Places]:
        """Images and rows of each block."""
        batch, height = self.similarity.shape[:2]
        images, rows = self._block
        for image in range(0, batch, images):
            for row in range(0, height, rows):
                yield slice(image, image + images), slice(row, row + rows)

    def buffer(self, name: str, places: _Places) -> Tensor:
        """Room [images, rows, W', k, k, C] for the patches of a block, which holds what was last written to it."""
        shape = self.pixels[places].shape
        if name not in self._buffers:  # the first block is the largest
            self._buffers[name] = self.similarity.new_empty(shape.numel())
        return self._buffers[name][: shape.numel()].view(shape)

    @abstractmethod
    def mixed(self, places: _Places) -> Tensor:
        """Lay out the mixed patches of a block [images, rows, W', k, k, C]."""

    @abstractmethod
    def add_gradient_of_taps(self, of_taps: list[Tensor], of_mixed: Tensor, places: _Places) -> None:
        """Add the gradient of a block's patches to that of each tap [B, H', W', C]; the mixed patches are lost."""

    @abstractmethod
    def write_gradient(self, of_mixed: Tensor, places: _Places, out: Tensor) -> None:
        """Write the gradient of a block's similarities [images, rows, W', n]; the mixed patches are lost."""


class _MaskedPatches(_Patches):
    """Patches with a diagonal similarity."""

    def _masks(self, places: _Places) -> Tensor:
        return torch.unflatten(self.similarity[places], 3, (self.window.kernel, -1)).unsqueeze(5)

    def mixed(self, places: _Places) -> Tensor:
        return torch.mul(self.pixels[places], self._masks(places), out=self.buffer("mixed", places))

    def add_gradient_of_taps(self, of_taps: list[Tensor], of_mixed: Tensor, places: _Places) -> None:
        masks, gradients = self._masks(places).flatten(3, 4), of_mixed.flatten(3, 4)
        for tap, pixels in enumerate(of_taps):
            pixels[places].addcmul_(gradients[:, :, :, tap], masks[:, :, :, tap])

    def write_gradient(self, of_mixed: Tensor, places: _Places, out: Tensor) -> None:
        products = torch.mul(self.pixels[places], of_mixed, out=self.buffer("mixed", places))
        torch.sum(products.flatten(3, 4), 4, out=out)


class _MultipliedPatches(_Patches):
    """Patches with an unconstrained similarity."""

    def _matrices(self, places: _Places) -> Tensor:
        count = self.window.kernel**2
        return self.similarity[places].reshape(-1, count, count)

    def _rows(self, patches: Tensor) -> Tensor:
        """Patches as [N, K, C]."""
        return patches.view(-1, self.window.kernel**2, self._channels)

    def mixed(self, places: _Places) -> Tensor:
        patches, mixed = self.buffer("patches", places).copy_(self.pixels[places]), self.buffer("mixed", places)
        torch.bmm(self._matrices(places), self._rows(patches), out=self._rows(mixed))
        return mixed

    def add_gradient_of_taps(self, of_taps: list[Tensor], of_mixed: Tensor, places: _Places) -> None:
        of_patches = self.buffer("mixed", places)
        torch.bmm(self._matrices(places).mT, self._rows(of_mixed), out=self._rows(of_patches))
        for pixels, gradient in zip(of_taps, of_patches.flatten(3, 4).unbind(3), strict=True):
            pixels[places].add_(gradient)

    def write_gradient(self, of_mixed: Tensor, places: _Places, out: Tensor) -> None:
        patches, count = self._rows(self.buffer("patches", places)), self.window.kernel**2
        torch.bmm(self._rows(of_mixed), patches.mT, out=out.view(-1, count, count))


def _patches(maps: Tensor, similarity: Tensor, window: Window) -> _Patches:
    kind = _MaskedPatches if similarity.shape[1] == window.kernel**2 else _MultipliedPatches
    return kind(maps, similarity, window)


class _BlockProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, similarity: Tensor, window: Window) -> Tensor:
        ctx.save_for_backward(maps, weight, similarity)
        ctx.window = window
        patches = _patches(maps, similarity, window)
        batch, _, height, width = similarity.shape
        kernel = by_taps(weight).t().contiguous()
        answers = maps.new_empty(batch, height, width, len(weight))
        for places in patches.blocks():
            torch.mm(patches.mixed(places).view(-1, len(kernel)), kernel, out=answers[places].view(-1, len(weight)))
        return answers.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if not torch.is_grad_enabled():
            return (*_gradients(ctx, gradient), None)
        # A gradient of this gradient is asked for (MAML): autograd takes it through the definition.
        inputs, needed = ctx.saved_tensors, ctx.needs_input_grad[:3]
        maps, weight, similarity = inputs
        answers = _by_definition(similarity, ctx.window)(maps, weight, similarity, ctx.window)
        wanted = [tensor for tensor, need in zip(inputs, needed, strict=True) if need]
        found = iter(torch.autograd.grad(answers, wanted, gradient, create_graph=True))
        return (*(next(found) if need else None for need in needed), None)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of maps, kernel and similarities, where they are needed."""
    maps, weight, similarity = ctx.saved_tensors
    for_maps, for_weight, for_similarity = ctx.needs_input_grad[:3]
    patches = _patches(maps, similarity, ctx.window)
    (batch, channels, height, width), padding = maps.shape, ctx.window.padding
    kernel, rows = by_taps(weight).contiguous(), gradient.permute(0, 2, 3, 1).contiguous()
    wide = torch.promote_types(kernel.dtype, torch.float32)
    of_kernel, of_similarity = torch.zeros_like(kernel, dtype=wide), torch.empty_like(patches.similarity)
    of_padded = maps.new_zeros(batch, height + 2 * padding, width + 2 * padding, channels).permute(0, 3, 1, 2)
    of_taps = taps_of(of_padded, patches.window, last=True)
    for places in patches.blocks():
        block, mixed = rows[places].view(-1, len(kernel)), patches.mixed(places)
        if for_weight and wide == kernel.dtype:
            of_kernel.addmm_(block.t(), mixed.view(len(block), -1))
        elif for_weight:  # sums over many blocks have no place in 8 bits of mantissa
            of_kernel.add_(block.t() @ mixed.view(len(block), -1))
        if not (for_maps or for_similarity):
            continue
        of_mixed = patches.buffer("gradient", places)
        torch.mm(block, kernel, out=of_mixed.view(len(block), -1))
        if for_maps:
            patches.add_gradient_of_taps(of_taps, of_mixed, places)
        if for_similarity:
            patches.write_gradient(of_mixed, places, of_similarity[places])
    return (
        of_padded[:, :, padding : padding + height, padding : padding + width] if for_maps else None,
        of_kernel.view(len(kernel), -1, channels).transpose(1, 2).reshape(weight.shape).to(weight.dtype)
        if for_weight
        else None,
        of_similarity.permute(0, 3, 1, 2) if for_similarity else None,
    )
