"""Environment variables that are no options: those that Kubernetes sets for Services, and names that no option has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Final

from mnserve.text.names import printable, shortened

_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+):[0-9]{1,5}")
"""Value of ``NAME_PORT`` for a Service of Kubernetes, or a link of Docker."""
_SERVICE_NAME: Final = re.compile(r".+_(SERVICE_(HOST|PORT(_.+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)")
"""Names of all variables that Kubernetes sets for one Service."""


def of_services(variables: Mapping[str, str]) -> frozenset[str]:
    """Finds variables named ``…_PORT`` whose value is the address of a Service, and no port."""
    return frozenset(
        name for name, text in variables.items() if name.endswith("_PORT") and _SERVICE_ADDRESS.fullmatch(text.strip())
    )


def unknown_variables(
    variables: Mapping[str, str], prefix: str, known: Collection[str], foreign: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Describes variables with the prefix of the options that no option has, except those of Services.

    Args:
        variables: The environment.
        prefix: Prefix of the options.
        known: Names of the variables that are options.
        foreign: Longer prefixes, of the options of other commands.

    Returns:
        A sentence for each variable.
    """
    sentences = []
    for name in sorted(variables):
        if not name.startswith(prefix) or name in known or _SERVICE_NAME.fullmatch(name):
            continue
        if name.startswith(tuple(other for other in foreign if other.startswith(prefix))):
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        remedy = f"write {close[0]} if that is meant" if close else "`--help` of the command lists them all"
        sentences.append(f"no option has the name {printable(shortened(name))}, and it is ignored; {remedy}")
    return tuple(sentences)
