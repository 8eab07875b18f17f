"""The version of the package, kept where nothing else needs importing to read it."""

__version__ = "0.1.0"
