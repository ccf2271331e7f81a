# BELAY_FORTRAN: compilers for the tests of Fortran and C++ programs (MPIFORT, MPICXX; HAVE_FORTRAN, HAVE_CXX).
AC_DEFUN([BELAY_FORTRAN],
  [AC_PATH_PROG([GFORTRAN], [gfortran])
   AC_PATH_PROGS([MPIFORT], [mpifort.openmpi mpifort])
   AS_IF([test -n "$GFORTRAN" && test -n "$MPIFORT"],
     [BELAY_FOUND([gfortran], [$GFORTRAN, $MPIFORT])],
     [BELAY_MISSING([gfortran], [optional], [tests of Fortran programs], [gfortran])])
   AM_CONDITIONAL([HAVE_FORTRAN], [test -n "$GFORTRAN" && test -n "$MPIFORT"])
   AC_PATH_PROG([GXX], [g++])
   AC_PATH_PROGS([MPICXX], [mpicxx.openmpi mpicxx])
   AS_IF([test -n "$GXX" && test -n "$MPICXX"],
     [BELAY_FOUND([g++], [$GXX, $MPICXX])],
     [BELAY_MISSING([g++], [optional], [tests of C++ programs], [g++])])
   AM_CONDITIONAL([HAVE_CXX], [test -n "$GXX" && test -n "$MPICXX"])])
