"""Loopback ports: a free one, whether one is free, and which processes listen on one."""

import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

import psutil

HOST = "127.0.0.1"


def free_port(host: str = HOST) -> int:
    """A port that nobody listens on now. Somebody may take it before we do: prove it later."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def port_is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could bind this port now."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def port_of(url: str) -> int:
    """The port of a URL, or its scheme's own."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def listens(pids: Iterable[int], port: int) -> bool:
    """Whether one of these processes holds the listening socket of this port."""
    return any(port in _listening_ports(pid) for pid in pids)


def _listening_ports(pid: int) -> set[int]:
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return set()  # it has ended, or is not ours to look into
    return {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN and c.laddr}


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
