"""Finds a Chromium for the browser tests; run as a module it fetches one where there is none.

`find` looks for what HEADROOM_CHROMIUM names, else for a browser of the system, else for Playwright's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "HEADROOM_CHROMIUM"
START_LIMIT_S = 60
COMMANDS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable"),
)
MAC_APPS = ("Chromium", "Google Chrome", "Microsoft Edge")
WINDOWS_APPS = ("Google/Chrome/Application/chrome.exe", "Microsoft/Edge/Application/msedge.exe")


def candidates(variables: Mapping[str, str], platform: str = sys.platform) -> list[Path]:
    """List where a Chromium of the system may be, most wanted first."""
    found = [Path(path) for path in map(shutil.which, COMMANDS) if path]
    if platform == "darwin":
        found += [Path("/Applications", f"{name}.app", "Contents", "MacOS", name) for name in MAC_APPS]
    if platform == "win32":
        bases = [variables.get(key) for key in ("ProgramFiles", "ProgramFiles(x86)", "LocalAppData")]
        found += [Path(base, tail) for tail in WINDOWS_APPS for base in bases if base]
    return found


def starts(browser: Path) -> bool:
    """Whether this browser runs; some systems ship a script in its place that only asks to install it."""
    if not browser.is_file():
        return False
    if sys.platform == "win32":  # there --version opens a window
        return True
    command = [str(browser), "--version"]
    try:
        return (
            subprocess.run(command, check=False, capture_output=True, timeout=START_LIMIT_S).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def bundled() -> Path:
    """Where Playwright keeps its own Chromium, or would keep it."""
    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path)


def find() -> Path | None:
    """Find a Chromium that starts, or None.

    Raises:
        ValueError: HEADROOM_CHROMIUM names something that is not one.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if starts(Path(named)):
            return Path(named)
        raise ValueError(f"{VARIABLE}={named}: not a browser that starts. Unset it to have one found.")
    return next(filter(starts, candidates(os.environ)), None) or next(filter(starts, [bundled()]), None)


def fetch() -> None:
    """Have Playwright fetch its own; failing that, as root on Debian, have the system's package installed."""
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    apt_get = shutil.which("apt-get")
    if sys.platform == "win32" or starts(bundled()) or apt_get is None or os.geteuid() != 0:
        return
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for action in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        subprocess.run([apt_get, "-q", *action], check=False, env=variables)


def main() -> int:
    """Print which Chromium the tests will use; exit status 1 when there is none and none could be fetched."""
    try:
        browser = find()
        if browser is None:
            print("None on this machine; fetching one ...", flush=True)
            fetch()
            browser = find()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if browser is None:
        print(
            "The browser tests need Chromium and none could be had. Install Chromium, Chrome or Edge, "
            f"or set {VARIABLE} to the path of one.",
            file=sys.stderr,
        )
        return 1
    print(browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
