# BELAY_SODIUM: libsodium, authentication and encryption between nodes.
AC_DEFUN([BELAY_SODIUM],
  [BELAY_MODULE([SODIUM], [libsodium >= 1.0.16], [libsodium],
     [required], [authentication and encryption between nodes], [libsodium-dev])])
