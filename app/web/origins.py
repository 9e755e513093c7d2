"""Who a request says it is for and where it says it comes from. Pure; knows no tokens."""

import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from app.config import Settings
from app.web.problems import Trouble

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"^(\[[0-9a-f:.]+\]|[^:\[\]@/\s]+)(:[0-9]{1,5})?$", re.IGNORECASE)
_EVERYWHERE = frozenset({"0.0.0.0", "::", "[::]", ""})


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Host names that are answered: the list, the address listened on, and the public name."""
    named = {host.lower() for host in settings.allowed_hosts}
    public = urlsplit(settings.public_url).hostname
    if public:
        named.add(_bracketed(public))
    if settings.host not in _EVERYWHERE:
        named.add(_bracketed(settings.host.lower()))
    return frozenset(named)


def check_host(headers: Headers, allowed: frozenset[str]) -> Trouble | None:
    """Refuse Host headers that nobody named: a stranger's DNS name must not reach this server."""
    given = headers.getlist("host")
    match = _HOST.match(given[0]) if len(given) == 1 else None
    if match is None:
        return Trouble(400, "bad-host", "The Host header cannot be read", "Exactly one is needed.")
    name = match.group(1).lower().rstrip(".")
    if name in allowed:
        return None
    return Trouble(
        421,
        "unknown-host",
        "This server does not answer for that host",
        f"{name[:80]} is not among the allowed hosts.",
        "Add it to SLIPSTREAM_ALLOWED_HOSTS, or set SLIPSTREAM_PUBLIC_URL.",
    )


def is_same_origin(headers: Headers, scheme: str, public_url: str) -> bool | None:
    """Whether the browser says that this site itself sent the request; None: no browser spoke."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    if origin is None:
        return None
    ours = {f"{scheme}://{headers.get('host', '')}".lower()}
    public = urlsplit(public_url)
    if public.hostname:
        ours.add(f"{public.scheme}://{public.netloc}".lower())
    return origin.lower() in ours


def local_path(target: str | None) -> str:
    """`target` when it is a path of this site, else the home page: no open redirects."""
    if not target or not target.startswith("/") or target.startswith("//"):
        return "/"
    if "\\" in target or any(ord(sign) < 0x20 or ord(sign) == 0x7F for sign in target):
        return "/"
    return target


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
