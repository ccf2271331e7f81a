# BELAY_PMIX: PMIx, by which ranks of several hosts find one another before MPI_Init.
AC_DEFUN([BELAY_PMIX],
  [BELAY_MODULE([PMIX], [pmix >= 3], [PMIx],
     [required], [how ranks of several hosts find one another], [libpmix-dev])])
