! hybrid_fortran - reductions and private data of OpenMP threads, MPI between the parallel regions; see hybrid.h.
module thread_data
  implicit none
  integer(8), save :: of_thread = 0
  !$omp threadprivate(of_thread)
end module

program main
  use mpi_f08
  use omp_lib
  use thread_data
  implicit none
  integer, parameter :: terms = 20000
  integer(8) :: total, everyone, i, all_steps, by_threads
  integer :: step, provided
  integer, external :: help_steps
  external :: help_begin, help_add, help_step, help_fail, help_end

  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided)
  call help_begin('hybrid')
  all_steps = 0
  do step = 1, help_steps()
    total = 0
    !$omp parallel do schedule(guided) reduction(+:total)
    do i = 0, terms - 1
      total = total + mod(step*31_8 + i*i, 1009_8)
      of_thread = of_thread + mod(step*31_8 + i*i, 1009_8)
    end do
    !$omp end parallel do
    all_steps = all_steps + total
    call MPI_Allreduce(total, everyone, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD)
    call help_add(everyone, 8)
    call help_step(step)
  end do
  by_threads = 0
  !$omp parallel reduction(+:by_threads)
  by_threads = by_threads + of_thread
  !$omp end parallel
  if (by_threads /= all_steps .or. omp_get_max_threads() < 2) call help_fail('threads', omp_get_max_threads())
  call help_end()
  call MPI_Finalize()
end program
