"""Somebody outside of the job to whom its ranks tell each step, and who never forgets one: tests/programs/apart.c."""

import os
import threading


class Witness:
    """Reads a named pipe in `folder` until it is closed; rows: (rank, step) in the order in which they were said."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "steps")
        self.rows = []
        os.mkfifo(self.path, 0o666)
        self._pipe = os.open(self.path, os.O_RDWR)  # its own writer: it never ends by itself
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        text = b""
        while True:
            text += os.read(self._pipe, 65536)
            *lines, text = text.split(b"\n")
            for line in lines:
                if not line:
                    return
                self.rows.append(tuple(map(int, line.split())))

    def close(self):
        os.write(self._pipe, b"\n")
        self._thread.join()
        os.close(self._pipe)
        os.unlink(self.path)

    def epochs(self):
        """(epoch, rank, step) of each row: a rank whose step is no later one has gone back to a line, which begins an epoch."""
        last, epoch, rows = {}, {}, []
        for rank, step in list(self.rows):
            if rank in last and step <= last[rank]:
                epoch[rank] += 1
            epoch.setdefault(rank, 1)
            rows.append((epoch[rank], rank, step))
            last[rank] = step
        return rows

    def assert_no_two_at_a_time(self):
        """No rank did a step of an epoch after any rank had begun the next one; the rows."""
        rows = self.epochs()
        newest = 1
        for number, (epoch, rank, step) in enumerate(rows):
            assert epoch >= newest, f"step {step} of rank {rank} in epoch {epoch}, after epoch {newest} began: {rows[number - 40:number + 1]}"
            newest = epoch
        return rows

    def assert_one_at_a_time(self, restarts):
        """And each rank saw all epochs."""
        rows = self.assert_no_two_at_a_time()
        ranks = {rank for _, rank, _ in rows}
        assert all({epoch for epoch, other, _ in rows if other == rank} == set(range(1, restarts + 2)) for rank in ranks), (
            restarts, sorted({row[:2] for row in rows}))
