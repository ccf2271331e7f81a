"""Input files of simulation packages whose programs want a folder of them."""


def foam(kind, name, text):
    return f"FoamFile {{ version 2.0; format ascii; class {kind}; object {name}; }}\n{text}"


def dictionary(name, text):
    return foam("dictionary", name, text)


# The flow in a square cavity whose lid moves; the fields are written with 12 digits.
CAVITY = {
    "system/blockMeshDict": dictionary("blockMeshDict", """scale 0.1;
vertices ((0 0 0) (1 0 0) (1 1 0) (0 1 0) (0 0 0.1) (1 0 0.1) (1 1 0.1) (0 1 0.1));
blocks (hex (0 1 2 3 4 5 6 7) (60 60 1) simpleGrading (1 1 1));
edges ();
boundary (
    lid { type wall; faces ((3 7 6 2)); }
    walls { type wall; faces ((0 4 7 3) (2 6 5 1) (1 5 4 0)); }
    sides { type empty; faces ((0 3 2 1) (4 5 6 7)); }
);
"""),
    "system/controlDict": dictionary("controlDict", """application icoFoam;
startFrom startTime; startTime 0; stopAt endTime; endTime 0.2; deltaT 0.0005;
writeControl timeStep; writeInterval 50; writeFormat ascii; writePrecision 12; writeCompression off;
timeFormat general; timePrecision 6; runTimeModifiable false;
"""),
    "system/fvSchemes": dictionary("fvSchemes", """ddtSchemes { default Euler; }
gradSchemes { default Gauss linear; }
divSchemes { default none; div(phi,U) Gauss linear; }
laplacianSchemes { default Gauss linear orthogonal; }
interpolationSchemes { default linear; }
snGradSchemes { default orthogonal; }
"""),
    "system/fvSolution": dictionary("fvSolution", """solvers {
    p { solver PCG; preconditioner DIC; tolerance 1e-08; relTol 0.05; }
    pFinal { $p; relTol 0; }
    U { solver smoothSolver; smoother symGaussSeidel; tolerance 1e-07; relTol 0; }
}
PISO { nCorrectors 2; nNonOrthogonalCorrectors 0; pRefCell 0; pRefValue 0; }
"""),
    "system/decomposeParDict": dictionary("decomposeParDict", """numberOfSubdomains 4; method simple;
coeffs { n (2 2 1); }
"""),
    "constant/transportProperties": dictionary("transportProperties", "nu [0 2 -1 0 0 0 0] 0.001;\n"),
    "0/p": foam("volScalarField", "p", """dimensions [0 2 -2 0 0 0 0]; internalField uniform 0;
boundaryField { lid { type zeroGradient; } walls { type zeroGradient; } sides { type empty; } }
"""),
    "0/U": foam("volVectorField", "U", """dimensions [0 1 -1 0 0 0 0]; internalField uniform (0 0 0);
boundaryField {
    lid { type fixedValue; value uniform (1 0 0); } walls { type noSlip; } sides { type empty; }
}
"""),
}

# 510 molecules of water.
WATER = {
    "md.mdp": """integrator = md
nsteps = 4000
dt = 0.002
nstlog = 100
nstenergy = 100
nstxout = 100
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
gen_vel = yes
gen_seed = 4242
constraints = h-bonds
""",
    "topol.top": """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
""",
}

# One molecule of water by density functional theory, moved by its forces.
MOLECULE = {
    "H2O.inp": """&GLOBAL
  PROJECT H2O
  RUN_TYPE MD
  PRINT_LEVEL LOW
&END GLOBAL
&FORCE_EVAL
  METHOD Quickstep
  &DFT
    BASIS_SET_FILE_NAME BASIS_SET
    POTENTIAL_FILE_NAME POTENTIAL
    &MGRID
      CUTOFF 200
    &END MGRID
    &QS
      EPS_DEFAULT 1.0E-8
    &END QS
    &SCF
      EPS_SCF 1.0E-4
      SCF_GUESS ATOMIC
    &END SCF
    &XC
      &XC_FUNCTIONAL Pade
      &END XC_FUNCTIONAL
    &END XC
  &END DFT
  &SUBSYS
    &CELL
      ABC 4.0 4.0 4.0
    &END CELL
    &COORD
      O 0.0 0.0 -0.065587
      H 0.0 -0.757136 0.520545
      H 0.0 0.757136 0.520545
    &END COORD
    &KIND H
      BASIS_SET DZVP-GTH-PADE
      POTENTIAL GTH-PADE-q1
    &END KIND
    &KIND O
      BASIS_SET DZVP-GTH-PADE
      POTENTIAL GTH-PADE-q6
    &END KIND
  &END SUBSYS
&END FORCE_EVAL
&MOTION
  &MD
    ENSEMBLE NVE
    STEPS 60
    TIMESTEP 0.1
    TEMPERATURE 300.0
  &END MD
&END MOTION
""",
}

# Poisson's equation on a square, again and again with another right side.
POISSON = {
    "poisson.py": """import sys
import petsc4py
petsc4py.init(sys.argv)
from petsc4py import PETSc

N = 300
STENCIL = ((0, 0, 4.0), (-1, 0, -1.0), (1, 0, -1.0), (0, -1, -1.0), (0, 1, -1.0))
grid = PETSc.DMDA().create([N, N], stencil_width=1)
matrix = grid.createMatrix()
(x_from, x_to), (y_from, y_to) = grid.getRanges()
row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
for j in range(y_from, y_to):
    for i in range(x_from, x_to):
        row.index = (i, j)
        for di, dj, value in STENCIL:
            if 0 <= i + di < N and 0 <= j + dj < N:
                column.index = (i + di, j + dj)
                matrix.setValueStencil(row, column, value)
matrix.assemble()
right, solution = matrix.createVecRight(), matrix.createVecLeft()
right.set(1.0)
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("jacobi")
solver.setTolerances(rtol=1e-10)
for step in range(60):
    solution.set(0)
    solver.solve(right, solution)
    right.axpy(1e-5, solution)
    PETSc.Sys.Print(step, solver.getIterationNumber(), repr(solution.norm()), flush=True)
""",
}
