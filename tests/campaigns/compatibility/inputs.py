"""Input files of the programs, small enough for some 10 s on two cores."""

import random

MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 50
dump 1 all custom 400 melt.dump id x y z vx vy vz
dump_modify 1 sort id format float %20.15g
run 400
"""

BANDS = """(set! num-bands 8)
(set! k-points (interpolate 4 (list (vector3 0 0 0) (vector3 0.5 0 0) (vector3 0.5 0.5 0) (vector3 0 0 0))))
(set! geometry (list (make cylinder (center 0 0 0) (radius 0.2) (height infinity)
  (material (make dielectric (epsilon 12))))))
(set! geometry-lattice (make lattice (size 1 1 no-size)))
(set! resolution 64)
(run-te)
(run-tm)
"""

HPCC = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
1000         Ns
1            # of NBs
80           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""

LU = """'SCALAPACK, LU factorization input file'
'MPI Machine'
'LU.out'		output file name (if any)
6			device out
3			number of problems sizes
600 800 1000		values of M
600 800 1000		values of N
2			number of NB's
16 40			values of NB
1			number of NRHS's
3			values of NRHS
1			Number of NBRHS's
3			values of NBRHS
3			number of process grids (ordered pairs of P & Q)
1 2 4			values of P
4 2 1			values of Q
1.0			threshold
F			(T or F) Test Cond. Est. and Iter. Ref. Routines
"""

QR = """'ScaLAPACK, QR factorizations input file'
'MPI machine'
'QR.out'                       output file name
6                              device out
6                              number of factorizations
'QR' 'QL' 'LQ' 'RQ' 'QP' 'TZ'  factorization: QR, QL, LQ, RQ, QP, TZ
2                              number of problems sizes
400 500                        values of M
400 600                        values of N
1                              number of MB's and NB's
16                             values of MB
16                             values of NB
2                              number of process grids (ordered pairs P & Q)
2 4                            values of P
2 1                            values of Q
1.0E+1                         threshold
"""


def alignment(taxa, length, seed):
    """DNA of related taxa in PHYLIP's format."""
    rng = random.Random(seed)

    def child(parent):
        return "".join(rng.choice("ACGT") if rng.random() < 0.08 else base for base in parent)

    rows = ["".join(rng.choice("ACGT") for _ in range(length))]
    while len(rows) < taxa:
        rows = [child(row) for row in rows for _ in range(2)]
    lines = [f"taxon{i:02d}   {row}" for i, row in enumerate(rows[:taxa])]
    return "\n".join([f"{taxa} {length}", *lines, ""])
