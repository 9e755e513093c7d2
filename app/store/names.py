"""Names for runs and results: short, random enough, readable in a URL."""

import re
import secrets

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without i, l, o, 0, 1: people retype these


def run_id() -> str:
    """A new run's id: 12 characters, 59 bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(12))


def slug(title: str, run: str) -> str:
    """A result's slug: words of the title, then the run's id."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:48].strip("-")
    return f"{words}-{run}" if words else run
