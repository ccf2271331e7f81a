# BELAY_HDF5_PARALLEL: HDF5 parallel, snapshots written by all ranks.
AC_DEFUN([BELAY_HDF5_PARALLEL],
  [BELAY_MODULE([HDF5_PARALLEL], [hdf5-openmpi >= 1.10], [HDF5 parallel],
     [optional], [snapshots written by all ranks], [libhdf5-openmpi-dev])])
