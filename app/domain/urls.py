"""The one guard of URLs that a stranger names: servers to attach to, webhooks to call.

Pure: it judges literal addresses and spellings, it resolves nothing. Whoever connects asks
`refuse_address` again about what the name resolved to.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from app.domain.errors import FieldProblem

MAX_URL_CHARS = 400

_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_NUMERIC_HOST = re.compile(r"^(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?$", re.IGNORECASE)
_HOST = re.compile(r"^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?\.?$", re.IGNORECASE)

_NAT64 = (  # RFC 6052, RFC 8215, and the IPv4-translated addresses of RFC 2765
    ip_network("64:ff9b::/96"),
    ip_network("64:ff9b:1::/48"),
    ip_network("::ffff:0:0:0/96"),
)
_REFUSED = (
    (ip_network("0.0.0.0/8"), "is no server's address"),
    (ip_network("169.254.0.0/16"), "is link-local (cloud metadata lives there)"),
    (ip_network("fe80::/10"), "is link-local"),
    (ip_network("224.0.0.0/4"), "is a multicast address"),
    (ip_network("240.0.0.0/4"), "is reserved"),
    (ip_network("ff00::/8"), "is a multicast address"),
    (ip_network("::/128"), "is no server's address"),
    (ip_network("100.100.100.200/32"), "is a cloud's metadata service"),
    (ip_network("192.0.0.192/32"), "is a cloud's metadata service"),
    (ip_network("fd00:ec2::254/128"), "is a cloud's metadata service"),
)


def check_url(field: str, url: str | None, *, allow_private: bool = True) -> list[FieldProblem]:
    """Why this URL may not be connected to; empty when it may.

    Loopback and private addresses are where servers are, so they are allowed unless asked.
    """
    remedy = "Write http://HOST:PORT."
    if not url:
        return [
            FieldProblem(field, "is missing.", "Give the server's URL, e.g. http://127.0.0.1:8000.")
        ]
    shown = repr(url[:80])
    if len(url) > MAX_URL_CHARS or _ODD.search(url):
        return [FieldProblem(field, f"{shown} is not a URL.", remedy)]
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return [FieldProblem(field, f"{shown} is not a URL.", remedy)]
    if parts.username is not None or parts.password is not None:
        return [
            FieldProblem(field, "holds a password.", "Use api_key: NAME and SLIPSTREAM_KEY_<NAME>.")
        ]
    if parts.query or parts.fragment or "?" in url or "#" in url:
        return [FieldProblem(field, f"{shown} holds a query or a fragment.", remedy)]
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return [FieldProblem(field, f"{shown} is not an http URL.", remedy)]
    reason = _refuse_host(host, allow_private)
    if reason:
        return [FieldProblem(field, f"{host[:80]} {reason}.", "Name a server of yours.")]
    return []


def refuse_address(
    address: IPv4Address | IPv6Address | str, *, allow_private: bool = True
) -> str | None:
    """Why nobody may connect to this address ('is link-local …'); None when one may.

    Called again by whoever connects, with every address that the name resolved to.
    """
    plain = _unwrap(ip_address(str(address).partition("%")[0]))
    for network, reason in _REFUSED:
        if plain.version == network.version and plain in network:
            return reason
    if not allow_private and not plain.is_global:
        return "is a private address"
    return None


def _refuse_host(host: str, allow_private: bool) -> str | None:
    try:
        return refuse_address(host, allow_private=allow_private)
    except ValueError:
        pass  # a name, or an address in a spelling that only some programs read
    if _NUMERIC_HOST.match(host):
        return "is not a plain address"
    if not _HOST.match(host):
        return "is not a host name"
    name = host.rstrip(".").lower()
    if name in ("metadata", "metadata.google.internal"):
        return "is a cloud's metadata service"
    if not allow_private and (name == "localhost" or name.endswith(".localhost")):
        return "is a private address"
    return None


def _unwrap(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one, where a gateway or the kernel would take it out."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _NAT64):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
