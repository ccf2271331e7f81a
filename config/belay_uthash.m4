# BELAY_UTHASH: uthash, maps; a single header.
AC_DEFUN([BELAY_UTHASH],
  [AC_CHECK_HEADER([uthash.h],
     [BELAY_FOUND([uthash], [uthash.h])],
     [BELAY_MISSING([uthash], [required], [maps], [uthash-dev])])])
