# BELAY_LIBFABRIC: libfabric, messages and data between nodes.
AC_DEFUN([BELAY_LIBFABRIC],
  [BELAY_MODULE([FABRIC], [libfabric >= 1.11], [libfabric],
     [required], [messages and data between nodes], [libfabric-dev])])
