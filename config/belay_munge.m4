# BELAY_MUNGE: MUNGE, authentication between nodes.
AC_DEFUN([BELAY_MUNGE],
  [BELAY_MODULE([MUNGE], [munge >= 0.5], [MUNGE],
     [optional], [authentication between nodes], [libmunge-dev])])
