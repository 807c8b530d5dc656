"""Random draws beside the global generators: what one family draws must not change what all of them draw."""

import torch


def forked_generator() -> torch.Generator:
    """Make a generator on the CPU whose seed follows from the state of the global one, which stays as it is.

    Its numbers are not those that the global generator gives next.
    """
    ahead = torch.Generator()
    ahead.set_state(torch.get_rng_state())
    # On the CPU even where modules are built on PyTorch's meta device.
    return torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=ahead, device="cpu")))
