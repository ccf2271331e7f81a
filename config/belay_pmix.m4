# BELAY_PMIX: PMIx, identity and placement of ranks.
AC_DEFUN([BELAY_PMIX],
  [BELAY_MODULE([PMIX], [pmix >= 3], [PMIx],
     [optional], [identity and placement of ranks], [libpmix-dev])])
