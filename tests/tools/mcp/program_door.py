"""Stands for a server that `program_server.py` forks: hands over its standard files, and ends as the server ends.

python -I -S program_door.py ADDRESS KIND FILE [--port PORT]
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as door:
    door.connect(sys.argv[1])
    wanted = {"arguments": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}
    socket.send_fds(door, [json.dumps(wanted).encode()], [0, 1, 2])
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1, 2):
        os.dup2(nothing, one)
    signal.signal(signal.SIGTERM, lambda *_: door.shutdown(socket.SHUT_WR))  # then the server is killed first
    os._exit(int(door.recv(16) or 1) % 256)
