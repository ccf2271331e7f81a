! integrals - an internal procedure as an argument, which is code on the stack, and 3 GiB of COMMON, which end
! above 2 GiB: built with -mcmodel=medium -no-pie, as large programs of old are.
program main
  use mpi
  implicit none
  integer, parameter :: blocks = 3 * 1024, block = 131072 ! of 1 MiB
  double precision :: table(block, blocks), results(1000)
  common /large/ table
  common /behind/ results
  integer :: rank, ierror, step, i
  double precision :: factor, total
  integer, external :: help_steps
  external :: help_begin, help_step, help_add, help_fail, help_end

  call MPI_Init(ierror)
  call help_begin('integrals')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  do step = 1, help_steps()
    factor = 1d0 + step + rank
    results(step) = integral(scaled, 16)
    i = 1 + mod(step * 97, blocks)
    table(1 + step, i) = results(step)
    table(block - step, blocks + 1 - step) = -results(step)
    call check(step)
    call MPI_Allreduce(results(step), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
    call help_add(total, 8)
    call help_step(step)
  end do
  call help_end()
  call MPI_Finalize(ierror)

contains

  ! Needs the frame of the program, so its address is that of a trampoline.
  double precision function scaled(x)
    double precision, intent(in) :: x
    scaled = factor * x * x
  end function

  double precision function integral(f, parts)
    interface
      double precision function f(x)
        double precision, intent(in) :: x
      end function
    end interface
    integer, intent(in) :: parts
    integer :: k
    integral = 0d0
    do k = 1, parts
      integral = integral + f((k - 0.5d0) / parts) / parts
    end do
  end function

  ! Everything that the steps before have left.
  subroutine check(last)
    integer, intent(in) :: last
    integer :: k
    do k = 1, last
      if (table(1 + k, 1 + mod(k * 97, blocks)) /= results(k) .or. &
          table(block - k, blocks + 1 - k) /= -results(k)) call help_fail('the table has changed at step', k)
    end do
  end subroutine
end program
