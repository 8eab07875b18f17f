"""A real browser, if there is one: Debian's chromium, driven by Playwright, which brings none itself here."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def why_not() -> str | None:
    """Why there is no browser to test with; None if there is one."""
    missing = [name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed: pip install -c constraints.txt '.[browser]'"
    if path_of_browser() is None:
        return "no browser is installed: apt-get install chromium"
    return None


def path_of_browser() -> str | None:
    """The path of a browser; None if there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)
