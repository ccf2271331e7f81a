! fortran08.f90 - use mpi_f08: handles as types, optional codes, statuses as types, an operation and callbacks
! with the new interfaces, strided and assumed-shape buffers, requests in arrays.
module work
  use mpi_f08
  implicit none
contains
  subroutine weighted(in, inout, count, type) bind(c)
    use, intrinsic :: iso_c_binding
    type(c_ptr), value :: in, inout
    integer :: count, i
    type(MPI_Datatype) :: type
    integer, pointer :: a(:), b(:)
    if (type /= MPI_INTEGER) call help_fail('type', type%MPI_VAL)
    call c_f_pointer(in, a, [count])
    call c_f_pointer(inout, b, [count])
    do i = 1, count
      b(i) = mod(3*a(i) + 3*b(i), 1009)
    end do
  end subroutine

  subroutine copy_next(comm, key, extra, old, new, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(MPI_ADDRESS_KIND) :: extra, old, new
    logical :: flag
    new = old + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine drop(comm, key, value, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, extra == 1)
  end subroutine
end module

program main
  use work
  implicit none
  integer, parameter :: n = 256
  type(MPI_Comm) :: comm, half
  type(MPI_Op) :: op
  type(MPI_Request) :: requests(4), pending
  type(MPI_Status) :: statuses(4), status
  type(MPI_Datatype) :: pair
  integer :: rank, ranks, step, steps, i, count, total, length, key, held, finished, indices(4)
  integer :: a(n), b(n), c(n)
  integer(MPI_ADDRESS_KIND) :: value
  logical :: flag
  character(len=MPI_MAX_PROCESSOR_NAME) :: host
  integer, external :: help_steps

  call MPI_Init()
  call help_begin('fortran08')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Get_processor_name(host, length)
  if (len_trim(host) /= length) call help_fail('host', length)
  steps = help_steps()
  call MPI_Op_create(weighted, .true., op)
  call MPI_Comm_create_keyval(copy_next, drop, key, 1_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 2_MPI_ADDRESS_KIND**33)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Type_contiguous(2, MPI_INTEGER, pair)
  call MPI_Type_commit(pair)
  call MPI_Irecv(held, 1, MPI_INTEGER, next(-1), 9, comm, pending)
  do step = 1, steps
    a = [(step + rank*i, i=1, n)]
    call MPI_Irecv(b, n/2, pair, next(-1), 1, comm, requests(1))
    call MPI_Irecv(c, n, MPI_INTEGER, next(1), MPI_ANY_TAG, comm, requests(2))
    call MPI_Isend(a, n, MPI_INTEGER, next(1), 1, comm, requests(3))
    call MPI_Isend(a, n/4, pair, next(-1), 20 + mod(step, 5), comm, requests(4))
    finished = 0
    do while (finished < 4)
      call MPI_Waitsome(4, requests, count, indices, statuses)
      finished = finished + count
      do i = 1, count
        if (indices(i) == 2) then
          if (statuses(i)%MPI_TAG /= 20 + mod(step, 5)) call help_fail('tag', statuses(i)%MPI_TAG)
        end if
      end do
    end do
    if (b(n) /= step + next(-1)*n) call help_fail('ring', b(n))
    call MPI_Allreduce(b(7), total, 1, MPI_INTEGER, op, comm)
    call MPI_Allreduce(MPI_IN_PLACE, c, 8, MPI_INTEGER, MPI_MAX, comm)
    call help_add([total], 4)
    call help_add(c, 32)
    call MPI_Comm_get_attr(comm, key, value, flag)
    if (.not. flag .or. value /= 2_MPI_ADDRESS_KIND**33 + 1) call help_fail('attribute', step)
    call MPI_Send(step, 1, MPI_INTEGER, next(1), 9, comm)
    call MPI_Wait(pending, status)
    if (held /= step .or. status%MPI_SOURCE /= next(-1)) call help_fail('held', held)
    call MPI_Irecv(held, 1, MPI_INTEGER, next(-1), 9, comm, pending)
    if (mod(step, 9) == 0) then
      call MPI_Comm_split(comm, mod(rank, 2), rank, half)
      if (half == MPI_COMM_NULL .or. half == comm) call help_fail('half', half%MPI_VAL)
      call MPI_Ibarrier(half, requests(1))
      call MPI_Iprobe(MPI_ANY_SOURCE, 55, comm, flag, status)
      if (flag) call help_fail('probe', status%MPI_SOURCE)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      call MPI_Comm_free(half)
    end if
    call help_step(step)
  end do
  call MPI_Send(step, 1, MPI_INTEGER, next(1), 9, comm)
  call MPI_Wait(pending, MPI_STATUS_IGNORE)
  call MPI_Comm_free(comm)
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, key)
  call MPI_Comm_free_keyval(key)
  call MPI_Op_free(op)
  call MPI_Type_free(pair)
  call help_end()
  call MPI_Finalize()
contains
  integer function next(distance)
    integer, intent(in) :: distance
    next = modulo(rank + distance, ranks)
  end function
end program
