"""A datagram socket that reads what a journal is sent, by the protocol's own rules."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from pathlib import Path

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


class Reader:
    """Entries as lists of (name, value), in the order sent."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "socket")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.settimeout(20.0)
        self.files = 0

    def close(self) -> None:
        self._socket.close()

    def entry(self) -> dict[str, str]:
        """The next entry; a field that comes twice is an error."""
        pairs = self.pairs()
        entry = dict(pairs)
        assert len(entry) == len(pairs)
        return entry

    def pairs(self) -> list[tuple[str, str]]:
        packet, rights, _, _ = self._socket.recvmsg(1 << 24, socket.CMSG_SPACE(4))
        if rights:
            packet = self._file(rights[0][2])
        return parse(packet)

    def nothing(self) -> bool:
        """Whether nothing more was sent."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return True
        finally:
            self._socket.settimeout(20.0)
        return False

    def _file(self, data: bytes) -> bytes:
        (number,) = array.array("i", data)
        with os.fdopen(number, "rb") as file:
            assert fcntl.fcntl(file, fcntl.F_GET_SEALS) == SEALS  # else a journal refuses it
            self.files += 1
            file.seek(0)
            return file.read()


def parse(packet: bytes) -> list[tuple[str, str]]:
    """NAME=value, or NAME, a length of 64 bits and so many bytes; a line break after each."""
    pairs = []
    while packet:
        line, _, rest = packet.partition(b"\n")
        name, sign, value = line.partition(b"=")
        if not sign:
            (length,) = struct.unpack_from("<Q", rest)
            value, end, rest = (
                rest[8 : 8 + length],
                rest[8 + length : 9 + length],
                rest[9 + length :],
            )
            assert end == b"\n"
        pairs.append((name.decode(), value.decode()))
        packet = rest
    return pairs
