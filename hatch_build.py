"""The package's links, made when it is built: its own, and the README's, which are relative to the repository.

The repository's address stands in one place, ``[tool.hatch.metadata.hooks.custom]`` of pyproject.toml. A
page elsewhere, such as an index's, has no files beside it: there links need the whole address, at the version's tag.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)\)")


class Links(MetadataHookInterface):
    """Give the metadata its addresses."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the links, and the README with its own made whole."""
        address, tag = self.config["repository"], f"v{metadata['version']}"
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(readme, address, tag)}
        metadata["urls"] = {
            "Homepage": address,
            "Documentation": f"{address}/blob/{tag}/docs/index.md",
            "Source": address,
            "Issues": f"{address}/issues",
            "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        }


def absolute(markdown: str, address: str, tag: str) -> str:
    """Return a text whose relative links name the files of a tag; pictures, the files themselves."""
    linked = LINK.sub(
        lambda found: f"{found[1]}{found[2]}{address}/{'raw' if found[1] else 'blob'}/{tag}/{found[3]})", markdown
    )
    return linked.replace("<this repository>", f"{address}.git")
