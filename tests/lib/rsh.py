#!/usr/bin/python3
"""A remote shell between hosts of one machine (hosts.py), as Open MPI uses ssh.

rsh.py serve SOCKET             the first process of a host: runs commands, reaps what is orphaned, ends with its standard input
rsh.py FOLDER [-OPTION]... HOST WORDS...   run the words in the shell of HOST, whose socket is FOLDER/HOST.rsh

The command has the environment of its host, and the streams of the caller, whose exit status is the command's. It runs as
the caller's user.
"""

import array
import os
import select
import signal
import socket
import struct
import sys

COMMAND_BYTES = 1 << 20


def serve(path):
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    os.chmod(path, 0o666)
    server.listen(16)
    woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    callers = {}  # by the process that runs for it
    while True:
        for end in select.select([server, woken, sys.stdin], [], [])[0]:
            if end is sys.stdin:  # its end: who has made the host is gone
                sys.exit()
            if end is server:
                start(server, callers)
            else:
                os.read(woken, 4096)
                reap(callers)


def start(server, callers):
    caller = server.accept()[0]
    words, anc, _, _ = caller.recvmsg(COMMAND_BYTES, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    streams = array.array("i")
    for _, _, data in anc:
        streams.frombytes(data)
    user, group = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[1:]
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 256)
        if user != os.getuid():
            become(user, group)
        os.execv("/bin/sh", ["sh", "-c", words.decode()])
    for stream in streams:
        os.close(stream)
    callers[pid] = caller


def become(user, group):
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    os.environ["HOME"] = "/tmp"


def reap(callers):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        caller = callers.pop(pid, None)
        if caller:
            try:
                caller.send(bytes([min(os.waitstatus_to_exitcode(status) % 256, 255)]))
            except BrokenPipeError:
                pass
            caller.close()


def call(folder, words):
    while words and words[0].startswith("-"):
        words.pop(0)
    host, *command = words
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.connect(os.path.join(folder, f"{host}.rsh"))
    except OSError as error:
        sys.exit(f"rsh: host {host} cannot be reached: {error.strerror}")
    end.sendmsg([" ".join(command).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    status = end.recv(1)
    sys.exit(status[0] if status else 255)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        call(sys.argv[1], sys.argv[2:])
