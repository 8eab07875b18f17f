"""The pages of the site about the public modules, which mkdocstrings fills from docstrings."""

from __future__ import annotations


def pages() -> dict[str, str]:
    """The text of each page by its path, as if it lay in the repository."""
    return {}
