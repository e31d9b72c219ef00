"""Opening and binding sockets with one-line errors, and handling of addresses."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from pyanticip.errors import DeviceError, reason

LINUX_TIMESTAMPNS = 35
"""SO_TIMESTAMPNS of Linux, which Python names from 3.12 on: an option, and the type of what comes with it."""
# IP_MULTICAST_ALL, for which Python has no name.
_LINUX_MULTICAST_ALL = 49


def resolve(host: str, port: int, what: str, kind: socket.SocketKind, flags: int = 0) -> tuple[Any, ...]:
    """Family, kind, protocol, name and address of a host's first entry from ``getaddrinfo``.

    IPv4 is preferred if a name has both, because most programs listen on IPv4 only.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=kind, flags=flags)
        return next((info for info in infos if info[0] == socket.AF_INET), infos[0])
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise DeviceError(f"{what}: cannot resolve host {host!r} ({reason(error)})") from None


def _resolved(host: str, port: int, what: str, flags: int = 0) -> tuple[socket.socket, tuple[object, ...]]:
    """A UDP socket of the address family of a host, and the resolved address."""
    family, kind, proto, _, address = resolve(host, port, what, socket.SOCK_DGRAM, flags)
    return socket.socket(family, kind, proto), address


def bind_udp(host: str, port: int, what: str) -> socket.socket:
    """A non-blocking UDP socket bound to ``host:port``; raises :class:`DeviceError` if that fails."""
    sock, address = _resolved(host, port, what, socket.AI_PASSIVE)
    try:
        sock.setblocking(False)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise listen_error(host, port, what, error) from None
    return sock


def listen_error(host: str, port: int, what: str, error: OSError) -> DeviceError:
    """The error to raise where a socket cannot be bound to ``host:port``."""
    if error.errno == errno.EADDRINUSE:
        problem = "is in use by another program; close it or choose another port"
        return DeviceError(f"{what}: port {port} at {host} {problem}")
    where = host_and_port(host, port) if port else host
    return DeviceError(f"{what}: cannot listen at {where} ({reason(error)})")


def join_group(
    sock: socket.socket, group: str, say: Callable[[str], None]
) -> tuple[list[socket.socket], Callable[[], None]]:
    """Join a multicast group at the interface of ``sock``, or at every one if it is bound to all addresses.

    Except on Windows, a socket that is bound to one address receives no multicast, so a second one, bound to
    the group, is opened. If no interface can be joined, one line is reported to ``say``.

    Returns:
        Further sockets to read, and a function that joins again, to be called now and then: an adapter that
        was plugged in later has not been joined.
    """
    host, port = sock.getsockname()[:2]
    on_all_interfaces = host in ("0.0.0.0", "::")
    extra: list[socket.socket] = []

    def join_again() -> None:
        with contextlib.suppress(OSError):
            _join(sock, socket.inet_aton(group), None if on_all_interfaces else host)

    try:
        if not on_all_interfaces and sock.family != socket.AF_INET:
            raise OSError("expected an address of IPv4")
        if not on_all_interfaces and sys.platform != "win32":
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            extra.append(sock)
            sock.setblocking(False)
            # Other programs may listen to the group as well.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((group, port))
        if sys.platform == "linux":
            # Otherwise it receives groups that other programs joined, at any interface.
            sock.setsockopt(socket.IPPROTO_IP, _LINUX_MULTICAST_ALL, 0)
        _join(sock, socket.inet_aton(group), None if on_all_interfaces else host)
    except OSError as error:
        for opened in extra:
            opened.close()
        say(f"multicast to {group} is not heard at {host_and_port(host, port)} ({reason(error)})")
        return [], join_again
    return extra, join_again


def _join(sock: socket.socket, group: bytes, host: str | None) -> None:
    """Join at the interface with the IPv4 address ``host`` (None: at every one). Raises OSError if none
    can."""
    if host is not None:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + socket.inet_aton(host))
        return
    joined, failed = False, OSError("no interface")
    for index, _ in socket.if_nameindex():
        # The interface by its index: in an `ip_mreqn`; on Windows as an address 0.x.x.x.
        interface = struct.pack("!I", index) if sys.platform == "win32" else struct.pack("@4xi", index)
        try:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + interface)
            joined = True
        except OSError as error:
            # For example an interface with IPv6 only.
            failed = error
    if not joined:
        raise failed


def age_ns(timespec: bytes) -> int:
    """Nanoseconds since the kernel received a datagram that came with this timestamp, by the wall clock.

    The monotonic clock is to be read after it: a thread that is interrupted in between then takes the
    datagram for a later one, not for one that came before it was sent.
    """
    seconds, nanos = struct.unpack_from("@qq", timespec)
    received_ns: int = seconds * 1_000_000_000 + nanos
    return time.time_ns() - received_ns


def connect_udp(host: str, port: int, what: str, *, broadcast: bool = False) -> socket.socket:
    """A UDP socket connected to ``host:port``, so that the system reports when nobody listens there; raises
    :class:`DeviceError` if that fails."""
    sock, address = _resolved(host, port, what)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, broadcast)
        sock.connect(address)
    except OSError as error:
        sock.close()
        raise DeviceError(f"{what}: cannot reach {host_and_port(host, port)} ({reason(error)})") from None
    return sock


def host_and_port(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(sender: str) -> str:
    """The host in ``host:port``, without the brackets of an IPv6 address; ``sender`` itself if it has no
    port."""
    if sender.startswith("["):
        return sender[1:].partition("]")[0]
    return sender if sender.count(":") > 1 else sender.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or ``localhost``; also IPv4 as seen by a socket bound to ``::``,
    such as ``::ffff:127.0.0.1``."""
    try:
        address = ipaddress.ip_address(host)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_address(address: str) -> bool:
    """Whether ``address`` is an IP address that can be a sender's, with or without a port."""
    host, _, port = address.rpartition(":")
    has_port = port.isascii() and port.isdecimal() and 0 < int(port) < 65536
    for candidate in (address, host if has_port else ""):
        with contextlib.suppress(ValueError):
            return not ipaddress.ip_address(candidate.removeprefix("[").removesuffix("]")).is_unspecified
    return False


def is_from(sender: str, selected: str) -> bool:
    """Whether a ``sender`` (host:port) matches ``selected`` (host or host:port)."""
    return selected == sender or selected.strip("[]") == host_of(sender)


def free_port() -> int:
    """A UDP port of the loopback interface that is currently unused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def address_of_this_machine() -> str:
    """The address at which the network reaches this machine; 127.0.0.1 if it is on none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
            address: str = sock.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return address


def tcp_server_host(host: str) -> str | None:
    """The host argument for an asyncio TCP server that accepts both families at ``::``, as a UDP socket
    does."""
    return None if host == "::" else host


def reachable_host(host: str) -> str:
    """The host at which others reach what is bound to ``host``."""
    return address_of_this_machine() if host in ("0.0.0.0", "::") else host
