"""Proxies of the environment and servers on this machine: a proxy would look for them on its own."""

import os

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def proxy_exemptions() -> dict[str, str]:
    """Return the variables ``no_proxy`` and ``NO_PROXY``, extended by the names of this machine."""
    return {name: ",".join(filter(None, (os.environ.get(name), *_LOOPBACK))) for name in ("no_proxy", "NO_PROXY")}


def exempt_loopback() -> None:
    """Have this process and its children reach this machine without a proxy."""
    os.environ.update(proxy_exemptions())
