# BELAY_JANSSON: jansson, --json output.
AC_DEFUN([BELAY_JANSSON],
  [BELAY_MODULE([JANSSON], [jansson >= 2.10], [jansson],
     [required], [--json output], [libjansson-dev])])
