# BELAY_NCURSES: ncurses, belay top.
AC_DEFUN([BELAY_NCURSES],
  [BELAY_MODULE([NCURSES], [ncursesw >= 6], [ncurses],
     [optional], [belay top], [libncurses-dev])])
