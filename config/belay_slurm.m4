# BELAY_SLURM: Slurm's plugin interface (a header; the plugin is loaded by Slurm, nothing is linked).
AC_DEFUN([BELAY_SLURM],
  [AC_CHECK_HEADER([slurm/spank.h],
     [have_SLURM=yes
      BELAY_FOUND([Slurm SPANK], [slurm/spank.h])],
     [have_SLURM=no
      BELAY_MISSING([Slurm SPANK], [optional], [srun --checkpoint-interval], [libslurm-dev])])
   AM_CONDITIONAL([HAVE_SLURM], [test "$have_SLURM" = yes])])
