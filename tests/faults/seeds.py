"""Which program, which nodes and which faults a seed is."""

import random
from dataclasses import dataclass, replace

import cases
import points

RANK, AGENT, KEEPER, NODE, RUN, PAUSE, POINT, DISK, MEMORY = "rank", "agent", "keeper", "node", "run", "pause", "point", "disk", "memory"
KINDS = {RANK: 5, AGENT: 3, KEEPER: 1, NODE: 6, RUN: 2, PAUSE: 2, POINT: 6, DISK: 1}  # and how often
TARGETS = (RANK, AGENT, NODE)  # of a pause
NODES = (1, 2, 2, 2, 3, 3, 4)
MAX_DELAY_MS = 250
LONGER_MS = 150  # between lines of a program that computes all the time
MAX_LINES = 3
LAST_LINE = 6
COMEBACKS_MS = (0, 100, 500, 2000)
FAN_OUT = 2  # with it, four nodes are no star
# What a bad network and a slow disk do to all that an agent says and records, as items of BELAY_FAULT.
NUISANCES = ("fabric.loss%1", "fabric.late%3", "fabric.twice%20", "fabric.chunk.loss%2")
SLOW = "record.write"
SLOW_MS = (20, 400)
PRESSURE = 0.3  # so many plans have a lack of memory
ROOMS_MIB = (0, 0, 1, 4, 16, 64)


@dataclass(frozen=True)
class Fault:
    kind: str
    number: int = 0  # of the rank, or among the nodes that are left: any number
    target: str = ""  # of a pause
    length_ms: int = 0  # of a pause, of a full disk, or of a lack of memory
    room: int = 0  # what an agent may still take meanwhile, in MiB
    point: points.Point = None
    action: str = ""
    count: int = 0

    def __str__(self):
        if self.kind == POINT:
            return self.specification() + (f" on node {self.number}" if self.point in points.OF_AGENTS else "")
        if self.kind == MEMORY:
            return f"{self.room} MiB of memory for agent {self.number} for {self.length_ms} ms"
        words = {RUN: "run", DISK: f"disk full for {self.length_ms} ms"}
        if self.kind == PAUSE:
            return f"pause of {self.target} {self.number} for {self.length_ms} ms"
        return words.get(self.kind, f"{self.kind} {self.number}")

    def specification(self):
        """For BELAY_FAULT."""
        return f"{self.point.name}{self.narrowed()}={self.action}"

    def narrowed(self):
        rank = f"@{self.number}" if self.point in points.OF_RANKS else "@0" if self.point.counts == points.FRAMES else ""
        return f"{rank}#{self.count}" if self.count else rank


@dataclass(frozen=True)
class Round:
    lines: int  # more than before, to be committed first
    delay_ms: int
    faults: tuple
    amid_restart: tuple  # faults once the restart is under way
    amid_delay_ms: int


@dataclass(frozen=True)
class Plan:
    seed: int
    program: str
    ranks: int
    nodes: int
    spares: int
    interval_ms: int
    rounds: tuple
    fault_points: tuple  # of processes that begin with the job
    comeback_ms: int = 0  # until a lost node is there again; 0: it is not
    fan_out: int = 0  # of the tree of agents; 0: the usual one
    nuisances: tuple = ()  # (node, item of BELAY_FAULT) that lasts as long as the node's first agent does

    def faults(self):
        return [*self.fault_points, *(fault for each in self.rounds for fault in (*each.faults, *each.amid_restart))]

    def __str__(self):
        place = f"{self.nodes} nodes" + (f" and {self.spares} spare" if self.spares else "") if self.nodes > 1 else "one node"
        parts = [f"seed {self.seed}: {self.program} with {self.ranks} ranks on {place}, a line each {self.interval_ms} ms"]
        parts += [f"lost nodes are back after {self.comeback_ms} ms"] if self.comeback_ms else []
        parts += [f"a tree with {self.fan_out} children each"] if self.fan_out else []
        parts += [f"{item} on node {node}" for node, item in self.nuisances]
        parts += [str(fault) for fault in self.fault_points]
        for each in self.rounds:
            words = " and ".join(map(str, each.faults)) or "a lost rank"
            amid = f", then amid the restart {' and '.join(map(str, each.amid_restart))}" if each.amid_restart else ""
            parts.append(f"{each.lines} lines and {each.delay_ms} ms later {words}{amid}")
        return "; ".join(parts)


def dice_of(text):
    return random.Random(f"faults {text}")


def make(seed, nodes=None, ranks=None):
    """The Plan of a seed; with as many nodes and ranks if they are given."""
    dice = dice_of(seed)
    drawn = dice.choice(NODES)
    nodes = nodes or drawn
    program = dice.choice(cases.names())
    drawn = dice.choice((2, 3, 4) if nodes < 3 else (4,))
    plan = Plan(seed=seed, program=program, ranks=ranks or drawn, nodes=nodes,
                spares=dice.choice((0, 0, 1)) if nodes > 1 else 0, interval_ms=dice.randrange(60, 250) + (LONGER_MS if program in cases.AT_ONCE else 0), rounds=(),
                fault_points=())
    for _ in range(dice.choice((1, 1, 2, 2, 3))):
        plan = add_round(plan, dice)
    return add_surroundings(replace(plan, comeback_ms=dice.choice(COMEBACKS_MS)))


def add_surroundings(plan):
    """By dice of their own: the faults of a seed do not depend on them."""
    dice = dice_of(f"surroundings {plan.seed}")
    items = [f"{SLOW}%30=delay:{dice.randrange(*SLOW_MS)}"]
    if plan.nodes > 1:
        items += [f"{name}:{dice.randrange(1000)}=error" for name in NUISANCES]
    fan_out = FAN_OUT if dice.random() < 0.5 and plan.nodes > FAN_OUT + 1 else 0
    nuisances = ((dice.randrange(plan.nodes), dice.choice(items)),) if dice.random() < 0.4 else ()
    return add_pressure(replace(plan, fan_out=fan_out, nuisances=nuisances))


def add_pressure(plan):
    """A node's agent is refused memory before the other faults of a round, and while they are done."""
    dice = dice_of(f"pressure {plan.seed}")
    if not plan.rounds or dice.random() >= PRESSURE:
        return plan
    fault = Fault(MEMORY, number=dice.randrange(plan.nodes + plan.spares), length_ms=dice.randrange(100, 2000), room=dice.choice(ROOMS_MIB))
    chosen = dice.randrange(len(plan.rounds))
    return replace(plan, rounds=tuple(replace(each, faults=(fault, *each.faults)) if number == chosen else each
                                      for number, each in enumerate(plan.rounds)))


def add_round(plan, dice):
    count = dice.choice((1, 1, 1, 2))
    faults, found = [], []
    for _ in range(count):
        fault = draw(plan, dice)
        (found if fault.kind == POINT else faults).append(fault)
    faults += [draw_for(fault.point, plan, dice) for fault in found if needs_more(fault.point, faults)]
    amid = (draw_loss(plan, dice),) if faults and dice.random() < 0.25 else ()
    new = Round(lines=dice.randrange(1, MAX_LINES + 1), delay_ms=dice.randrange(MAX_DELAY_MS), faults=tuple(faults),
                amid_restart=amid, amid_delay_ms=dice.randrange(MAX_DELAY_MS))
    rounds = (*plan.rounds, new) if faults else plan.rounds
    return replace(plan, rounds=rounds, fault_points=(*plan.fault_points, *found))


def needs_more(point, faults):
    """Without a loss the point would not be passed."""
    if point.needs == points.LOSS:
        return not any(fault.kind == NODE for fault in faults)
    return point.needs == points.RESTART and not faults


def draw_for(point, plan, dice):
    kind = NODE if point.needs == points.LOSS else RANK
    return Fault(kind, number=dice.randrange(plan.ranks if kind == RANK else plan.nodes))


def draw(plan, dice):
    kind = dice.choices(list(KINDS), KINDS.values())[0]
    if kind == POINT:
        return draw_point(plan, dice)
    return draw_loss(plan, dice, kind)


def draw_loss(plan, dice, kind=None):
    kind = kind or dice.choice((RANK, RANK, AGENT, NODE, RUN))
    if plan.nodes == 1 and kind == NODE and dice.random() < 0.8:
        kind = AGENT  # what a single node holds is lost with it: the job begins anew
    fault = Fault(kind, number=dice.randrange(plan.ranks if kind == RANK else plan.nodes + plan.spares))
    if kind == PAUSE:
        return replace(fault, target=dice.choice(TARGETS), length_ms=dice.randrange(50, 1500))
    return replace(fault, length_ms=dice.randrange(50, 1500)) if kind == DISK else fault


def draw_point(plan, dice):
    kinds = [points.OF_RANKS, points.OF_RUN, points.OF_AGENTS, points.OF_AGENTS]
    of = [point for point in dice.choice(kinds) if plan.nodes > 1 or is_of_one_node(point)]
    point = dice.choice(of)
    counts = {points.LINES: (2, LAST_LINE), points.EPOCHS: (2, 3), points.CHANGES: (1, 40), points.FRAMES: (20, 400),
              points.CHUNKS: (1, 40)}
    count = dice.randint(*counts[point.counts])
    if point.needs != points.ANY and point in points.OF_AGENTS and point.counts == points.LINES:
        count = 0  # at the first restart: the agent after this one has no such fault
    number = dice.randrange(plan.ranks if point in points.OF_RANKS else plan.nodes)
    return Fault(POINT, number=number, point=point, action=dice.choice(point.actions), count=count)


def is_of_one_node(point):
    return point.needs != points.LOSS and not point.name.startswith(("fabric.", "agent.mirror."))
