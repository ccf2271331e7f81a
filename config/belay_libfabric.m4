# BELAY_LIBFABRIC: libfabric, data between nodes.
AC_DEFUN([BELAY_LIBFABRIC],
  [BELAY_MODULE([FABRIC], [libfabric >= 1.11], [libfabric],
     [optional], [data between nodes], [libfabric-dev])])
