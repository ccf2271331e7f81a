# BELAY_ZSTD: Zstandard, copies compressed on slow links.
AC_DEFUN([BELAY_ZSTD],
  [BELAY_MODULE([ZSTD], [libzstd >= 1.5], [Zstandard],
     [required], [copies compressed on slow links], [libzstd-dev])])
