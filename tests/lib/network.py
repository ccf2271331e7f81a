"""A network of a job's own on this machine, with somebody on it who hears everything and may say anything."""

import ctypes
import os
import shutil
import socket
import struct
import subprocess
import threading

from waiting import wait_for

CLONE_NEWNET = 0x40000000
PACKET_OUTGOING = 4  # each packet on the loopback comes twice
SO_RCVBUFFORCE = 33
ETHERNET_BYTES = 14


def lacking():
    """Why there can be no such network here; '' if there can."""
    if os.geteuid() != 0:
        return "a network of a job's own needs root"
    for tool in ("unshare", "nsenter", "ip"):
        if not shutil.which(tool):
            return f"a network of a job's own needs {tool}"
    return ""


class Network:
    """A network namespace; commands with `words` before them run in it."""

    def __init__(self):
        self.first = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && exec cat"],
                                      stdin=subprocess.PIPE)
        wait_for(lambda: os.path.basename(os.readlink(f"/proc/{self.first.pid}/exe")) == "cat", 10, "a network")
        self.words = ["nsenter", "-t", str(self.first.pid), "--net", "--"]

    def within(self, make):
        """What make() returns, called in the network: a socket that it makes stays there."""
        made = []

        def enter():
            try:
                move()
                made.append(make())
            except OSError as error:
                made.append(error)

        def move():
            with open(f"/proc/{self.first.pid}/ns/net", "rb") as space:
                if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        return made[0]

    def ports(self, program):
        """The ports at which processes of this name listen, by process."""
        rows = subprocess.run([*self.words, "ss", "-Htlnp"], capture_output=True, text=True, check=True).stdout.splitlines()
        return {int(row.split("pid=")[1].split(",")[0]): int(row.split()[3].rsplit(":", 1)[1])
                for row in rows if f'"{program}"' in row}

    def destroy(self):
        self.first.kill()
        self.first.stdin.close()
        self.first.wait()


class Tap:
    """Records all TCP streams of a network until it is closed."""

    def __init__(self, network):
        self.streams = {}  # (port from, port to, first sequence number): {sequence number: bytes}
        self.begins = {}  # (port from, port to): first sequence number of the newest one
        self.socket = network.within(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 29)
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.2)
        self.is_ending = False
        self.thread = threading.Thread(target=self._record)
        self.thread.start()

    def _record(self):
        while not self.is_ending:
            try:
                packet, where = self.socket.recvfrom(1 << 17)
            except TimeoutError:
                continue
            if where[2] != PACKET_OUTGOING:
                self._take(packet[ETHERNET_BYTES:])

    def _take(self, packet):
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            return
        at = (packet[0] & 15) * 4
        ends = struct.unpack_from(">HH", packet, at)
        number, = struct.unpack_from(">I", packet, at + 4)
        is_first = packet[at + 13] & 2  # SYN
        text = packet[at + (packet[at + 12] >> 4) * 4:]
        if is_first:
            self.begins[ends] = (number + 1) % (1 << 32)
        if text and ends in self.begins:
            self.streams.setdefault((*ends, self.begins[ends]), {})[(number - self.begins[ends]) % (1 << 32)] = text

    def said_to(self, *ports):
        """What clients have said to these ports: the bytes of each connection, oldest first, up to the first gap."""
        return [_whole(parts) for key, parts in list(self.streams.items()) if key[1] in ports]

    def has_seen(self, text):
        return any(text in part for parts in list(self.streams.values()) for part in list(parts.values()))

    def close(self):
        self.is_ending = True
        self.thread.join()
        self.socket.close()


def _whole(parts):
    whole = bytearray()
    while len(whole) in parts:
        whole += parts[len(whole)]
    return bytes(whole)
