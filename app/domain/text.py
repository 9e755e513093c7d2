"""Text from models, servers and people, made fit to be stored:
every database takes what is left."""

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with NUL (PostgreSQL refuses it) and lone surrogates (not UTF-8) replaced by
    U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)
