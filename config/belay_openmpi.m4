# BELAY_OPENMPI: Open MPI 4.1: headers and library (MPI_CFLAGS, MPI_LIBS), MPICC and MPIRUN.
AC_DEFUN([BELAY_OPENMPI],
  [BELAY_MODULE([MPI], [ompi-c >= 4.1], [Open MPI],
     [required], [the MPI library under the applications], [libopenmpi-dev])
   AC_PATH_PROG([MPICC], [mpicc])
   AS_IF([test -n "$MPICC"],
     [BELAY_FOUND([mpicc], [$MPICC])],
     [BELAY_MISSING([mpicc], [required], [compiles the example programs], [libopenmpi-dev])])
   AC_PATH_PROG([MPIRUN], [mpirun])
   AS_IF([test -n "$MPIRUN"],
     [BELAY_FOUND([mpirun], [$MPIRUN])],
     [BELAY_MISSING([mpirun], [required], [launches the tests' jobs], [openmpi-bin])])])
