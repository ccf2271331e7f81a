! particles - particles that move along a line of ranks (use mpi): parameterized types, packed messages of unknown
! length, buffered sends, an error handler in Fortran that is called again and again, a COMMON block.
program main
  use mpi
  implicit none
  integer, parameter :: rk = selected_real_kind(12, 100), ik = selected_int_kind(9)
  integer, parameter :: most = 4000, room = 100000
  integer :: ierr, rank, ranks, real_type, integer_type, step, count, i, left, right, at, handler_number
  integer :: line, code, class, length, world, odd, odd_line, bytes, total, request, detached
  integer :: status(MPI_STATUS_SIZE), errors
  integer, allocatable :: members(:)
  real(rk) :: x(most), v(most), energy, everyone
  character :: message(room), attached(4*room)
  character(len=MPI_MAX_ERROR_STRING) :: text
  integer(ik) :: seed
  integer, external :: help_steps
  external :: handler, help_begin, help_step, help_fail, help_end
  common /handled/ errors

  errors = 0
  call MPI_INIT(ierr)
  call help_begin('particles')
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
  call MPI_TYPE_CREATE_F90_REAL(12, 100, real_type, ierr)
  call MPI_TYPE_CREATE_F90_INTEGER(9, integer_type, ierr)
  call MPI_CART_CREATE(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., line, ierr)
  call MPI_CART_SHIFT(line, 0, 1, left, right, ierr)
  call MPI_COMM_CREATE_ERRHANDLER(handler, handler_number, ierr)
  call MPI_COMM_SET_ERRHANDLER(line, handler_number, ierr)
  call MPI_COMM_GROUP(MPI_COMM_WORLD, world, ierr)
  members = [(2*i - 1, i=1, ranks/2)]
  call MPI_GROUP_INCL(world, size(members), members, odd, ierr)
  call MPI_COMM_CREATE(MPI_COMM_WORLD, odd, odd_line, ierr)
  call MPI_BUFFER_ATTACH(attached, 4*room, ierr)
  count = 500
  seed = 17 + rank
  do i = 1, count
    x(i) = random()
    v(i) = 0.02_rk*(random() - 0.5_rk)
  end do
  do step = 1, help_steps()
    x(1:count) = x(1:count) + v(1:count)
    call move(right, left, 1)
    call move(left, right, -1)
    if (mod(step, 10) == 0) call take_stock()
    call help_step(step)
  end do
  call MPI_BUFFER_DETACH(attached, detached, ierr)
  call help_end()
  call MPI_FINALIZE(ierr)

contains

  real(rk) function random()
    seed = mod(seed*1103_ik + 12345_ik, 65536_ik)
    random = real(seed, rk)/65536
  end function

  ! Those that have left this rank's part on one side go to the next one.
  subroutine move(to, from, side)
    integer, intent(in) :: to, from, side
    integer :: k
    at = 0
    k = 1
    do while (k <= count)
      if ((side > 0 .and. x(k) >= 1) .or. (side < 0 .and. x(k) < 0)) then
        call MPI_PACK(x(k) - side, 1, real_type, message, room, at, line, ierr)
        call MPI_PACK(v(k), 1, real_type, message, room, at, line, ierr)
        x(k) = x(count)
        v(k) = v(count)
        count = count - 1
      else
        k = k + 1
      end if
    end do
    call MPI_BSEND(message, at, MPI_PACKED, to, 2 + side, line, ierr)
    call MPI_PROBE(from, 2 + side, line, status, ierr)
    call MPI_GET_COUNT(status, MPI_PACKED, bytes, ierr)
    call MPI_RECV(message, bytes, MPI_PACKED, from, 2 + side, line, status, ierr)
    at = 0
    do while (at < bytes)
      count = count + 1
      call MPI_UNPACK(message, bytes, at, x(count), 1, real_type, line, ierr)
      call MPI_UNPACK(message, bytes, at, v(count), 1, real_type, line, ierr)
    end do
  end subroutine

  ! The sum over all, one over the odd ranks, and a mistake that the handler has to hear of.
  subroutine take_stock()
    energy = sum(v(1:count)**2)
    call MPI_REDUCE(energy, everyone, 1, real_type, MPI_MAX, 0, MPI_COMM_WORLD, ierr)
    call MPI_ALLREDUCE(count, total, 1, integer_type, MPI_SUM, line, ierr)
    if (odd_line /= MPI_COMM_NULL) then
      call MPI_IALLREDUCE(MPI_IN_PLACE, energy, 1, real_type, MPI_MAX, odd_line, request, ierr)
      call MPI_WAIT(request, status, ierr)
    end if
    call MPI_SEND(count, 1, MPI_INTEGER, ranks + 5, 0, line, code)
    call MPI_ERROR_CLASS(code, class, ierr)
    call MPI_ERROR_STRING(code, text, length, ierr)
    if (class /= MPI_ERR_RANK .or. errors /= step/10) call help_fail('errors that were handled', errors)
    if (rank == 0) write (6, '(i5,1x,f18.12,2(1x,i6),1x,a)') step, everyone, total, errors, text(1:length)
  end subroutine
end program

subroutine handler(comm, code)
  implicit none
  integer :: comm, code, errors
  common /handled/ errors
  errors = errors + 1
end subroutine
