"""What the address in the browser names."""

from urllib.parse import urlsplit


def names_page(url: str | None, name: str) -> bool:
    """Whether an address ends in the name of a page, whatever server, folder and query it has.

    Args:
        url: The address, None where there is no browser.
        name: The page's name, as in `/cost`.
    """
    return urlsplit(url or "").path.rstrip("/").rpartition("/")[2] == name
