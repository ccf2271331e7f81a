# BELAY_XXHASH: xxHash, sums of images; used from its header alone.
AC_DEFUN([BELAY_XXHASH],
  [AC_CHECK_HEADER([xxhash.h],
     [BELAY_FOUND([xxhash], [xxhash.h])],
     [BELAY_MISSING([xxhash], [required], [sums of images], [libxxhash-dev])])])
