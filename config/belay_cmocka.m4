# BELAY_CMOCKA: cmocka, unit tests.
AC_DEFUN([BELAY_CMOCKA],
  [BELAY_MODULE([CMOCKA], [cmocka >= 1.1], [cmocka],
     [required], [unit tests], [libcmocka-dev])])
