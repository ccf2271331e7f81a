"""Input files of further packages of Debian: electronic structures, finite elements, trees, other languages."""

import inputs

ELK = """tasks
  0


avec
  5.13 5.13 0.00
  5.13 0.00 5.13
  0.00 5.13 5.13

atoms
  1
  'Si.in'
  2
  0.0 0.0 0.0
  0.25 0.25 0.25

sppath
  '/usr/share/elk-lapw/species/'

ngridk
  3 3 3

"""

SILICON = """&control
 calculation='md', prefix='si', pseudo_dir='./', outdir='./tmp', nstep=4, dt=20, tprnfor=.true.
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=18.0, nosym=.true.
/
&electrons
 conv_thr=1d-9
/
&ions
/
ATOMIC_SPECIES
 Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS
 Si 0.0 0.0 0.0
 Si 0.26 0.25 0.24
K_POINTS automatic
 3 3 3 1 1 1
"""

ABINIT = """pp_dirpath "./"
pseudos "14si.pspnc"
ionmov 2
ntime 5
tolmxf 1e-5
ecut 10
kptopt 1
ngkpt 4 4 4
nstep 20
toldff 1e-6
acell 3*10.2
rprim 0 .5 .5 .5 0 .5 .5 .5 0
ntypat 1
znucl 14
natom 2
typat 1 1
xred 0 0 0 .26 .25 .24
nsym 1
"""

HYDROGEN = """from ase import Atoms
from gpaw import GPAW, PW
from gpaw.mpi import world

atoms = Atoms("H2", positions=[(0, 0, 0), (0, 0, 0.74)])
atoms.center(vacuum=3.0)
atoms.calc = GPAW(mode=PW(250), txt="out.txt", xc="PBE", maxiter=60)
energy = atoms.get_potential_energy()
if world.rank == 0:
    print(f"{energy:.6f}")
"""

POISSON = """verbosity = 0;
mesh Th = square(60, 60);
fespace Vh(Th, P2);
Vh u, v, w;
real all = 0;
w = 0;
for (int step = 0; step < 12; step++) {
  solve P(u, v) = int2d(Th)(dx(u) * dx(v) + dy(u) * dy(v) + u * v)
    - int2d(Th)((1. + mpirank + step + w) * v) + on(1, 2, 3, 4, u = 0);
  w = u;
  real x = int2d(Th)(u), y;
  mpiAllReduce(x, y, mpiCommWorld, mpiSUM);
  all += y;
  if (mpirank == 0) {
    cout.precision(12);
    cout << step << " " << all << endl;
    ofstream f("sums", append);
    f << all << endl;
  }
}
"""

R = """library(Rmpi)
rank <- mpi.comm.rank(0)
size <- mpi.comm.size(0)
set.seed(rank)
x <- 0
log <- file(paste0("log.", rank), "w")
for (step in 1:60) {
  m <- matrix(rnorm(10000), 100)
  x <- mpi.allreduce(x + sum(solve(m + diag(100) * 50)), 2, "sum", 0) / size
  cat(step, x, "\\n", file = log)
  if (step %% 5 == 0) flush(log)
  told <- mpi.bcast.Robj(list(step = step, x = x), 0, 0)
  if (rank == 0) { cat(told$step, format(told$x, digits = 14), "\\n"); flush(stdout()) }
  Sys.sleep(0.08)
}
close(log)
saveRDS(x, paste0("x.", rank))
invisible(mpi.barrier(0))
mpi.quit()
"""

RUBY = """require "mpi"
require "narray"
MPI.Init
world = MPI::Comm::WORLD
x = NArray.float(3).indgen! + world.rank
sum = NArray.float(3)
Thread.new { loop { sleep 0.01 } }
60.times do |step|
  world.Allreduce(x, sum, MPI::Op::SUM)
  x = sum / world.size + NArray.float(3).indgen! * step + world.rank
  File.open("x.#{world.rank}.tmp", "w") { |file| file.puts x.to_a.inspect; file.fsync }
  File.rename("x.#{world.rank}.tmp", "x.#{world.rank}")
  GC.start if step % 10 == 3
  sleep 0.1
  puts x.to_a.inspect if world.rank == 0
  $stdout.flush
end
MPI.Finalize
"""

DNA = inputs.alignment(24, 1200, 3)
