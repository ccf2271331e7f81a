# BELAY_FORTRAN: a Fortran compiler for the tests of Fortran programs (GFORTRAN).
AC_DEFUN([BELAY_FORTRAN],
  [AC_PATH_PROG([GFORTRAN], [gfortran])
   AS_IF([test -n "$GFORTRAN"],
     [BELAY_FOUND([gfortran], [$GFORTRAN])],
     [BELAY_MISSING([gfortran], [optional], [tests of Fortran programs], [gfortran])])])
