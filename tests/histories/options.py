"""What the commands of this folder have in common: which history it is, and where Belay is."""

import os

import traces
from belaytest import Sandbox
from judge import Judge
from plans import read_left_out
from programs import TOP, Programs


def add_options(parser):
    """Those that say which history it is, for this command and for `reduce`."""
    parser.add_argument("--steps", type=int, default=150, metavar="N", help="steps of a history (default 150)")
    parser.add_argument("--ranks", type=int, metavar="N", help="default: 2 or 3, as the seed says")
    parser.add_argument("--only", action="append", default=[], metavar="LIST", help="kinds and operations to choose from")
    parser.add_argument("--without", action="append", default=[], metavar="LIST", help="what is left out besides")
    parser.add_argument("--known", action="store_true", help="also what left-out.tsv calls a known defect")
    parser.add_argument("--all", action="store_true", help="also what it calls lost")
    parser.add_argument("--policy", metavar="NAME", help="when lines copy (default: Belay's own); cll: with a pool of 1 MiB")
    parser.add_argument("--programs", metavar="FOLDER", help="where the programs are; default: in BELAY_BUILD")


def settings_of(options):
    def words(lists):
        return tuple(word for text in lists for word in text.split(",") if word)
    left_out = [] if options.all else read_left_out("lost") if options.known else read_left_out()
    settings = {"steps": options.steps, "only": words(options.only), "without": (*words(options.without), *left_out)}
    return {**settings, **({"ranks": options.ranks} if options.ranks else {})}


def build_folder():
    return os.environ.get("BELAY_BUILD") or os.path.join(TOP, "_build")


def settings_of_policy(policy):
    """What `belay run` is told of it. A small pool is full most of the time."""
    return ("--policy", policy, *(("--pool", "1M") if policy == "cll" else ())) if policy else ()


def make_judge(options):
    traces.leave_common_objects()  # killed ranks leave some
    prefix = os.environ.get("BELAY_PREFIX") or os.path.join(TOP, "_install")
    build = build_folder()
    sandbox = Sandbox(prefix, Programs(prefix, build, None))
    return Judge(sandbox, options.programs or os.path.join(build, "tests", "histories"), settings_of_policy(options.policy))
