# BELAY_LZ4: LZ4, copies compressed on slow links.
AC_DEFUN([BELAY_LZ4],
  [BELAY_MODULE([LZ4], [liblz4 >= 1.9], [LZ4],
     [required], [copies compressed on slow links], [liblz4-dev])])
