# BELAY_LIBUV: libuv, event loop of the node agent.
AC_DEFUN([BELAY_LIBUV],
  [BELAY_MODULE([UV], [libuv >= 1.30], [libuv],
     [required], [event loop of the node agent], [libuv1-dev])])
