"""The programs of the campaign: Debian's binaries, and some that are built from public sources."""

from dataclasses import dataclass, field

import cases
import inputs
import packages

SHORT_INTERVAL = "100ms"
PETSC4PY = "/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real/lib/python3/dist-packages"
SCALAPACK = "/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests/"


@dataclass(frozen=True)
class Target:
    """A program and what of it is compared. In argv, `{source}` is the folder of its build, `{count}` one of counts."""

    name: str
    origin: str  # Debian's package, or the name of a source in sources.tsv
    what: str  # it computes, for the page
    argv: tuple
    inputs: dict = field(default_factory=dict)  # file name: text
    outputs: tuple = ()  # file names, beside standard output
    ranks: int = 4
    needs: str = ""  # a program or path that tells whether it is installed, if argv[0] does not
    before: tuple = ()  # command lines that make further inputs
    variables: dict = field(default_factory=dict)  # of the environment
    interval: str = ""  # between lines, if the campaign's is too long for it
    counts: tuple = ()  # how much it can be given to do: the first that takes long enough is taken
    compare: str = "same"  # or "passed": the tests that passed natively have to pass


def debian():
    return [
        Target("lammps", "lammps",
               "a Lennard-Jones melt of 32,000 atoms; the final dump has every position and velocity",
               ("lmp", "-in", "melt"), {"melt": inputs.MELT}, ("melt.dump", "log.lammps")),
        Target("hpcc", "hpcc", "the HPC Challenge: HPL, PTRANS, RandomAccess, FFT, latency",
               ("hpcc",), {"hpccinf.txt": inputs.HPCC}, ("hpccoutf.txt",)),
        Target("mpb", "mpb-mpi", "bands of a photonic crystal (Guile, HDF5, FFTW)",
               ("mpb-mpi", "bands.ctl"), {"bands.ctl": inputs.BANDS}),
        Target("phyml", "phyml", "a phylogenetic tree with 16 bootstrap replicates",
               ("phyml-mpi", "-i", "tree.phy", "-b", "16", "--r_seed", "7", "--no_memory_check", "--quiet"),
               {"tree.phy": inputs.alignment(12, 400, 5)},
               ("tree.phy_phyml_tree.txt", "tree.phy_phyml_stats.txt", "tree.phy_phyml_boot_trees.txt")),
        Target("scalapack-lu", "scalapack-mpi-test", "ScaLAPACK's test of LU factorization (Fortran, BLACS)",
               (SCALAPACK + "xdlu",), {"LU.dat": inputs.LU}),
        Target("scalapack-qr", "scalapack-mpi-test", "ScaLAPACK's test of QR factorizations (Fortran, BLACS)",
               (SCALAPACK + "xdqr",), {"QR.dat": inputs.QR}),
    ]


def simulations():
    return [
        Target("cp2k", "cp2k", "CP2K: molecular dynamics with density functional theory (Fortran, ScaLAPACK)",
               ("cp2k.psmp", "H2O.inp"), cases.MOLECULE, ("H2O-pos-1.xyz", "H2O-1.ener"), ranks=2,
               variables={"OMP_NUM_THREADS": "1"}),
        Target("gromacs", "gromacs", "GROMACS: molecular dynamics of water, two OpenMP threads per rank (C++)",
               ("gmx_mpi", "mdrun", "-s", "topol.tpr", "-reprod", "-ntomp", "2", "-dlb", "no", "-notunepme"),
               cases.WATER, ("confout.gro",), ranks=2,
               before=(("gmx", "solvate", "-cs", "spc216.gro", "-box", "2.5", "2.5", "2.5", "-o", "conf.gro",
                        "-p", "topol.top"),
                       ("gmx", "grompp", "-f", "md.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "topol.tpr")),
               variables={"OMP_NUM_THREADS": "2"}),
        Target("openfoam", "openfoam", "OpenFOAM: flow in a cavity, fields written every 50 steps (C++)",
               ("icoFoam", "-parallel"), cases.CAVITY,
               tuple(f"processor{rank}/{when}/{field}" for rank in range(4) for when in ("0.025", "0.2")
                     for field in ("U", "p")),
               before=(("blockMesh",), ("decomposePar",)), variables={"WM_PROJECT_DIR": "/usr/share/openfoam"}),
        Target("petsc4py", "python3-petsc4py-real3.18", "PETSc from Python: Poisson's equation, conjugate gradients",
               ("/usr/bin/python3", "poisson.py"), cases.POISSON, needs=PETSC4PY + "/petsc4py",
               variables={"PYTHONPATH": PETSC4PY, "OMP_NUM_THREADS": "1"}),
    ]


PSEUDO = "/usr/share/doc/quantum-espresso/examples/EPW/sic/pp/Si.pz-vbc.UPF.gz"  # of quantum-espresso-data


def others():
    return [
        Target("elk", "elk-lapw", "Elk: silicon by linearized augmented plane waves (Fortran)",
               ("elk-lapw",), {"elk.in": packages.ELK}, ("TOTENERGY.OUT", "EFERMI.OUT", "EIGVAL.OUT"), ranks=3,
               variables={"OMP_NUM_THREADS": "1"}),
        Target("pw", "quantum-espresso", "Quantum ESPRESSO: molecular dynamics of silicon (Fortran, ScaLAPACK)",
               ("pw.x", "-in", "si.in"), {"si.in": packages.SILICON}, ranks=2, needs=PSEUDO,
               before=(("sh", "-c", f"zcat {PSEUDO} >Si.pz-vbc.UPF"),), variables={"OMP_NUM_THREADS": "1"}),
        Target("abinit", "abinit", "ABINIT: silicon is relaxed (Fortran, NetCDF)",
               ("abinit", "si.abi"), {"si.abi": packages.ABINIT}, ranks=2, needs="/usr/share/abinit/psp/14si.pspnc",
               before=(("cp", "/usr/share/abinit/psp/14si.pspnc", "."),), variables={"OMP_NUM_THREADS": "1"}),
        Target("gpaw", "gpaw", "GPAW: the hydrogen molecule in plane waves (Python, C)",
               ("gpaw", "python", "h2.py"), {"h2.py": packages.HYDROGEN}, ranks=2, variables={"OMP_NUM_THREADS": "1"}),
        Target("freefem", "freefem++", "FreeFem++: Poisson's equation on two ranks, sums in a file (C++)",
               ("FreeFem++-mpi", "poisson.edp"), {"poisson.edp": packages.POISSON}, ("sums",), ranks=2),
        Target("iqtree", "iqtree", "IQ-TREE: a phylogenetic tree (C++, OpenMP)",
               ("iqtree2-mpi", "-s", "dna.phy", "-m", "GTR+G", "-seed", "5", "-nt", "1"), {"dna.phy": packages.DNA},
               ranks=3),
        Target("rmpi", "r-cran-rmpi", "R with Rmpi: a reduction of matrices, a log, a saved object",
               ("Rscript", "sums.R"), {"sums.R": packages.R}, ("log.0", "log.1", "x.0", "x.1"), ranks=2,
               needs="/usr/lib/R/site-library/Rmpi", variables={"BELAY_LATE_MPI": "R"}),
        Target("ruby", "ruby-mpi", "Ruby with ruby-mpi: a reduction, files replaced by rename, a thread",
               ("ruby", "sums.rb"), {"sums.rb": packages.RUBY}, ("x.0", "x.1"), ranks=2,
               needs="/usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0/mpi.so", variables={"BELAY_LATE_MPI": "ruby3.1"}),
    ]


NPB = {"bt": "block tridiagonal solver", "sp": "scalar pentadiagonal solver", "lu": "SSOR solver, pipelined",
       "cg": "conjugate gradient", "mg": "multigrid", "ft": "3-D FFT, all to all", "is": "integer sort (C)",
       "ep": "random numbers, hardly any messages"}
NPB_CLASSES = ("A", "B")
SHORT = ("cg.A", "mg.A", "ft.A", "is.A", "is.B")  # less than 2 s


def npb():
    for letter in NPB_CLASSES:
        for name, what in NPB.items():
            title = f"{name}.{letter}"
            yield Target(f"npb-{title}", "npb", f"{name.upper()} class {letter}: {what}",
                         (f"{{source}}/bin/{title}.4",), interval=SHORT_INTERVAL if title in SHORT else "")


def proxies():
    return [
        Target("comd", "comd", "CoMD: molecular dynamics of 32,000 atoms of copper, embedded-atom potential",
               ("{source}/bin/CoMD-mpi", "-e", "-d", "{source}/pots", "-x", "20", "-y", "20", "-z", "20",
                "-i", "2", "-j", "2", "-k", "1", "-N", "60")),
        Target("lulesh", "lulesh", "LULESH: shock hydrodynamics (C++, OpenMP with two threads per rank)",
               ("{source}/lulesh2.0", "-s", "12", "-i", "200"), ranks=8,
               variables={"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}),
    ]


OSU_PAIRS = ("latency", "bw", "bibw", "multi_lat", "mbw_mr", "latency_mt")
OSU_COLLECTIVES = ("allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "gather",
                   "gatherv", "reduce", "reduce_scatter", "scatter", "scatterv", "iallgather", "iallgatherv",
                   "ialltoall", "ialltoallv", "ialltoallw", "ibarrier", "ibcast", "igather", "igatherv",
                   "iscatter", "iscatterv")


def osu():
    """Their tables are times and rates: compared are the message sizes, and that they come to the end."""
    for folder, names, ranks in (("pt2pt", OSU_PAIRS, 2), ("collective", OSU_COLLECTIVES, 4)):
        for name in names:
            yield Target(f"osu-{name}", "osu", f"OSU micro-benchmark osu_{name}",
                         (f"{{source}}/mpi/{folder}/osu_{name}", "-i", "{count}", "-x", "10"), ranks=ranks,
                         interval=SHORT_INTERVAL, counts=(20, 200, 2000, 20000, 200000))


# One file for each rank: on one stream their words would mix. It is appended to, since a restart runs the shell again.
# Tests that start processes want what the job has not got.
MPI4PY = ('exec /usr/bin/python3 "$0/test/runtests.py" -v -e test_spawn -e test_dynproc '
          '2>>tests.$OMPI_COMM_WORLD_RANK')


def mpi4py():
    for ranks in (1, 2, 4):
        yield Target(f"mpi4py-{ranks}", "mpi4py", f"mpi4py's own tests, ranks: {ranks}",
                     ("sh", "-c", MPI4PY, "{source}"), outputs=tuple(f"tests.{rank}" for rank in range(ranks)),
                     ranks=ranks, compare="passed")


TARGETS = [*debian(), *simulations(), *others(), *npb(), *proxies(), *osu(), *mpi4py()]
