"""Add to a bill of materials what is bundled inside the wheel, of which the environment's packages say nothing.

    cd benchmarks && python -m distribution.bundled ../build/sbom/serve.cdx.json

The console has a chart library in one file, published on npm, with the libraries that it was built from.
"""

import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

VENDOR = Path(__file__).parents[2] / "mnserve" / "console" / "page" / "vendor"
_OWNER = "mn-runtime"


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """A package of npm.

    Attributes:
        name: its name there.
        version: its version; None where single files were copied from it, of a version that nobody names.
        license: SPDX identifier.
        file: name of the file that has it; None where it is inside the file of another one.
        parts: names of the packages that are inside it.
    """

    name: str
    version: str | None
    license: str
    file: str | None = None
    parts: tuple[str, ...] = field(default=())

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:npm/{self.name}" + (f"@{self.version}" if self.version else "")

    def component(self) -> dict[str, Any]:
        """Describe it as a component of CycloneDX."""
        found: dict[str, Any] = {
            "type": "library",
            "bom-ref": self.purl,
            "name": self.name,
            "purl": self.purl,
            "licenses": [{"license": {"id": self.license}}],
        }
        if self.version is not None:
            found["version"] = self.version
        if self.file is not None:
            digest = hashlib.sha256((VENDOR / self.file).read_bytes()).hexdigest()
            found["hashes"] = [{"alg": "SHA-256", "content": digest}]
        return found


BUNDLED = (
    Bundled(
        name="echarts",
        version="6.1.0",
        license="Apache-2.0",
        file="echarts-6.1.0.common.min.js",
        parts=("zrender", "d3", "tslib"),
    ),
    Bundled(name="zrender", version="6.1.0", license="BSD-3-Clause"),
    Bundled(name="d3", version=None, license="BSD-3-Clause"),
    Bundled(name="tslib", version="2.3.0", license="0BSD"),
)


def add_bundled(bill: dict[str, Any]) -> None:
    """Add the bundled packages to a bill of materials, below this project.

    Args:
        bill: a bill in CycloneDX's JSON; it is changed.

    Raises:
        ValueError: the bill does not have this project.
    """
    components = bill.setdefault("components", [])
    described = [*components, bill.get("metadata", {}).get("component", {})]
    owners = [item["bom-ref"] for item in described if item.get("name") == _OWNER]
    if not owners:
        raise ValueError(f"the bill has no component '{_OWNER}'; make it of an environment with this project")
    purls = {item.name: item.purl for item in BUNDLED}
    have = {item.get("bom-ref") for item in components}
    components += [item.component() for item in BUNDLED if item.purl not in have]
    tree = {item["ref"]: item for item in bill.setdefault("dependencies", [])}
    wanted = {item.purl: {purls[part] for part in item.parts} for item in BUNDLED}
    wanted |= {owner: {item.purl for item in BUNDLED if item.file is not None} for owner in owners}
    for reference, others in wanted.items():
        if reference not in tree:
            tree[reference] = {"ref": reference}
            bill["dependencies"].append(tree[reference])
        if others:
            tree[reference]["dependsOn"] = sorted({*tree[reference].get("dependsOn", ()), *others})


def main(file: Path) -> int:
    """Add them to a file; returns the exit code."""
    bill = json.loads(file.read_text())
    add_bundled(bill)
    text = json.dumps(bill, indent=2) + "\n"
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        print(f"bundled: {file} would be no valid bill of materials: {fault}", file=sys.stderr)
        return 1
    file.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
