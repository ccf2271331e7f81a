"""Named fault points (docs/faults.md) that a plan may use: what passes them, and when it does.

A point is (name, actions, what `#LINE` counts, what has to happen so that it is passed).
"""

from dataclasses import dataclass

KILL, ERROR = "kill", "error"
LINES, EPOCHS, CHANGES, FRAMES, CHUNKS = "lines", "epochs", "changes", "frames", "chunks"
ANY, RESTART, LOSS = "any", "restart", "loss"  # LOSS: of a node


@dataclass(frozen=True)
class Point:
    name: str
    actions: tuple
    counts: str = LINES
    needs: str = ANY  # a restart, or the loss of a node, after which the point is passed
    damages: bool = False  # `error` makes an image or a copy of it useless


OF_RANKS = (
    Point("rank.drain", (KILL, ERROR)),
    Point("rank.drain.counts", (KILL, ERROR)),
    Point("rank.note", (KILL, ERROR)),
    Point("rank.park", (KILL, ERROR)),
    Point("rank.resume", (KILL,)),
    Point("rank.restore", (KILL,), LINES, RESTART),
)
OF_RUN = tuple(Point(f"arbiter.epoch.{step}", (KILL,), EPOCHS, RESTART)
               for step in ("answered", "recorded", "told", "entered"))
OF_AGENTS = (
    *(Point(f"agent.epoch.{step}", (KILL,), EPOCHS, RESTART) for step in ("promised", "told", "entered")),
    *(Point(f"agent.{step}", (KILL, ERROR)) for step in ("prepare", "strobe", "capture", "captured", "protected")),
    *(Point(f"agent.{step}", (KILL,)) for step in
      ("drain", "mirror.send", "mirror.taken", "commit.before", "commit.recorded", "commit.after")),
    Point("agent.apply", (KILL, ERROR), damages=True),
    *(Point(f"agent.apply.{step}", (KILL,)) for step in ("pages", "done", "kept")),
    Point("agent.image.check", (KILL, ERROR), needs=RESTART, damages=True),
    Point("agent.fetch.ask", (KILL,), needs=LOSS),
    Point("agent.fetch.send", (KILL,), needs=LOSS),
    Point("agent.fetch.taken", (KILL,), needs=LOSS),
    Point("agent.fetch.kept", (KILL,), needs=LOSS),
    *(Point(f"agent.undo.{step}", (KILL,), needs=RESTART) for step in ("begin", "end", "forget", "forgotten")),
    Point("agent.undo.stepped", (KILL,), CHANGES, RESTART),
    Point("fabric.frame", (ERROR,), FRAMES),
    Point("fabric.chunk", (ERROR,), CHUNKS),
)
