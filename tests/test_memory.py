"""Memory that is set aside, locked, or only address space; and limits on it."""

import fcntl
import os
import re
import resource
import subprocess

import pytest

from belaytest import assert_recovered

POOL = "/proc/sys/vm/nr_hugepages"
POOL_PAGES = 64
NEEDED_PAGES = 40  # by both ranks of a program
PAGE_KB = 2048


def read_number(path, pattern=r"(\d+)"):
    with open(path, encoding="ascii") as file:
        return int(re.search(pattern, file.read()).group(1))


def set_pool(pages):
    with open(POOL, "w", encoding="ascii") as file:
        file.write(str(pages))


def free_pages():
    """Of the default size, which has to be 2 MiB."""
    if not os.path.exists(POOL) or read_number("/proc/meminfo", r"Hugepagesize:\s+(\d+)") != PAGE_KB:
        return 0
    free = read_number("/proc/meminfo", r"HugePages_Free:\s+(\d+)")
    return free - read_number("/proc/meminfo", r"HugePages_Rsvd:\s+(\d+)")


@pytest.fixture
def huge_pages():
    """As many as the programs take; whether the test may change how many there are."""
    if not os.path.exists(POOL):
        pytest.skip("this kernel has no huge pages to set aside")
    with open(POOL, encoding="ascii") as pool:
        fcntl.flock(pool, fcntl.LOCK_EX)  # one test at a time
        before = read_number(POOL)
        may_set = os.access(POOL, os.W_OK)
        try:
            if free_pages() < NEEDED_PAGES and may_set:
                set_pool(before + POOL_PAGES)
            if free_pages() < NEEDED_PAGES:
                pytest.skip(f"{free_pages()} huge pages of 2 MiB are free, fewer than {NEEDED_PAGES}")
            yield may_set
        finally:
            if may_set:
                set_pool(before)


@pytest.fixture
def huge_folder(huge_pages, sandbox):
    """A folder in a file system of huge pages."""
    folder = os.path.join(sandbox.base, "huge")
    os.mkdir(folder)
    mount = ["mount", "-t", "hugetlbfs", "none", folder]
    if not huge_pages or subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("this user may not mount hugetlbfs")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
    os.rmdir(folder)


def huge_program(programs, mode, *arguments):
    return programs.test_program("mem_huge", "--mode", mode, "--steps", 50, "--seconds", 2, *arguments, ranks=2)


def recover(job, before_the_kill=lambda: None):
    job.wait_committed(2)
    before_the_kill()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.mark.usefixtures("huge_pages")
@pytest.mark.parametrize("tracker", ["pagemap_scan", "full"])
def test_huge_pages(sandbox, programs, tracker):
    """Private ones are huge ones after a restart, too."""
    job = sandbox.run(huge_program(programs, "private", "--value", 1), options=["--tracker", tracker])
    recover(job)
    assert "ordinary" not in job.errors


def test_too_few_huge_pages_at_a_restart(sandbox, programs, huge_pages):
    """A program had better go on with ordinary pages than not at all."""
    if not huge_pages:
        pytest.skip("this user may not set huge pages aside")
    program = huge_program(programs, "kept")
    programs.reference(program)  # which needs the pages
    job = sandbox.run(program)
    recover(job, lambda: set_pool(0))
    assert job.errors.count("there are not as many free huge pages") == 2, job.errors


@pytest.mark.usefixtures("huge_pages")
def test_shared_huge_pages(sandbox, programs):
    recover(sandbox.run(huge_program(programs, "shared")))


def test_files_of_huge_pages(sandbox, programs, huge_folder, monkeypatch):
    """Private mappings; a shared one is refused in one line."""
    monkeypatch.setenv("MEM_HUGE_FOLDER", huge_folder)
    recover(sandbox.run(huge_program(programs, "file", "--value", 1), MEM_HUGE_FOLDER=huge_folder))
    job = sandbox.run(huge_program(programs, "refused"), name="refused", trace=False, MEM_HUGE_FOLDER=huge_folder)
    assert job.wait() != 0
    assert job.errors.count("refused (ENODEV)") == 2, job.errors


def may_lock(wanted):
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return limit in (resource.RLIM_INFINITY, -1) or limit >= wanted


def locked_program(programs, mode, *arguments):
    return programs.test_program("mem_locked", "--mode", mode, "--steps", 50, "--seconds", 2, *arguments, ranks=2)


@pytest.mark.parametrize("mode", ["parts", "limit", "sealed"])
def test_locked_memory(sandbox, programs, mode):
    """It is locked after a restart, too; what may be locked is as without Belay."""
    if not may_lock(4 << 20):
        pytest.skip("less than 4 MiB may be locked")
    recover(sandbox.run(locked_program(programs, mode)))


def test_locking_all_memory(sandbox, programs):
    """The application's, not Belay's, today's and tomorrow's."""
    if os.geteuid() != 0 and not may_lock(1 << 40):
        pytest.skip("not all memory may be locked")
    recover(sandbox.run(locked_program(programs, "all", "--value", 300)))


def test_much_address_space(sandbox, programs):
    """85 TiB of it, of which a native run has room for some more."""
    recover(sandbox.run(programs.test_program("mem_fixed", "--mode", "wide", "--steps", 50, "--seconds", 2, ranks=2)))


def test_limited_address_space(sandbox, programs):
    """600 MiB under a limit that leaves room for them and the libraries of MPI."""
    program = programs.test_program("mem_fixed", "--mode", "limited", "--value", 600, "--steps", 50, "--seconds", 2,
                                    ranks=2)
    trace = os.path.join(sandbox.folder, "trace")
    job = sandbox.run(program, trace=False, line=["mpirun", "-n", "2", "sh", "-c", 'ulimit -v 1500000; exec "$@"', "sh",
                                                  *program.argv, "--trace", trace])
    job.trace_path = trace
    recover(job)
