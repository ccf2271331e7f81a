! wave - a wave on a grid of ranks (mpi_f08): namelist input, a Cartesian topology, halos and a file of subarrays,
! an operation and attribute callbacks in Fortran, formatted output to unit 6 and to a file that is reopened.
module extremes
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none

  type, bind(c) :: extreme
    real(c_double) :: value
    integer(c_int) :: where
  end type

  integer :: copies = 0, deletes = 0

contains

  subroutine larger(invec, inoutvec, length, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: length
    type(MPI_Datatype) :: datatype
    type(extreme), pointer :: a(:), b(:)
    integer :: i
    call c_f_pointer(invec, a, [length])
    call c_f_pointer(inoutvec, b, [length])
    do i = 1, length
      if (a(i)%value > b(i)%value .or. (a(i)%value == b(i)%value .and. a(i)%where < b(i)%where)) b(i) = a(i)
    end do
  end subroutine

  subroutine copy_attribute(oldcomm, keyval, extra, value_in, value_out, flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra, value_in, value_out
    logical :: flag
    copies = copies + 1
    value_out = value_in + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_attribute(comm, keyval, value, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    deletes = deletes + 1
    ierror = MPI_SUCCESS
  end subroutine
end module

program main
  use extremes
  implicit none
  integer :: n = 0, out_every = 0
  double precision :: speed = 0
  namelist /setup/ n, out_every, speed
  integer :: rank, ranks, dims(2) = 0, coords(2), neighbours(4), own(2), step, i, j, key, unit, number
  type(MPI_Comm) :: cart, copy
  type(MPI_Datatype) :: sent(4), got(4), part, pair, padded
  type(MPI_Op) :: op
  type(MPI_Request) :: requests(8)
  type(MPI_File) :: file
  type(extreme) :: mine, largest
  integer(MPI_ADDRESS_KIND) :: attribute
  integer(MPI_OFFSET_KIND) :: offset
  logical :: found
  double precision :: energy, everyone
  double precision, allocatable :: u(:, :), before(:, :), after(:, :)
  integer, external :: help_steps
  external :: help_begin, help_step, help_fail, help_end

  call MPI_Init()
  call help_begin('wave')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_setup()
  call MPI_Dims_create(ranks, 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .true., cart)
  call MPI_Comm_rank(cart, rank)
  call MPI_Cart_coords(cart, rank, 2, coords)
  call MPI_Cart_shift(cart, 0, 1, neighbours(1), neighbours(2))
  call MPI_Cart_shift(cart, 1, 1, neighbours(3), neighbours(4))
  own = n/dims
  call make_types()
  call MPI_Op_create(larger, .true., op)
  call MPI_Comm_create_keyval(copy_attribute, delete_attribute, key, 3_MPI_ADDRESS_KIND)
  call MPI_File_open(MPI_COMM_WORLD, 'wave.dat', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
  call MPI_Comm_set_attr(cart, key, 10_MPI_ADDRESS_KIND)
  call start()
  do step = 1, help_steps()
    call exchange()
    do j = 1, own(2)
      do i = 1, own(1)
        after(i, j) = 2*u(i, j) - before(i, j) &
                      + speed*(u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) - 4*u(i, j))
      end do
    end do
    before = u
    u = after
    if (mod(step, 5) == 0) call find_largest()
    if (mod(step, out_every) == 0) call put_out()
    call help_step(step)
  end do
  call MPI_Comm_free_keyval(key)
  call MPI_Comm_free(cart)
  call MPI_File_close(file)
  if (copies /= help_steps()/5 .or. deletes /= copies + 1) call help_fail('attribute callbacks', copies)
  call help_end()
  call MPI_Finalize()

contains

  subroutine read_setup()
    if (rank == 0) then
      n = 96
      out_every = 10
      speed = 0.2d0
      open (newunit=unit, file='wave.in', status='replace')
      write (unit, nml=setup)
      close (unit)
      open (newunit=unit, file='wave.txt', status='replace')
      close (unit)
    end if
    call MPI_Barrier(MPI_COMM_WORLD)
    open (newunit=unit, file='wave.in', status='old', action='read')
    read (unit, nml=setup)
    close (unit)
  end subroutine

  subroutine make_types()
    call halo([1, 1], [1, own(2)], sent(1))
    call halo([own(1), 1], [1, own(2)], sent(2))
    call halo([1, 1], [own(1), 1], sent(3))
    call halo([1, own(2)], [own(1), 1], sent(4))
    call halo([0, 1], [1, own(2)], got(1))
    call halo([own(1) + 1, 1], [1, own(2)], got(2))
    call halo([1, 0], [own(1), 1], got(3))
    call halo([1, own(2) + 1], [own(1), 1], got(4))
    call MPI_Type_create_subarray(2, [n, n], own, coords*own, MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, part)
    call MPI_Type_commit(part)
    call MPI_Type_create_struct(2, [1, 1], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], &
                                [MPI_DOUBLE_PRECISION, MPI_INTEGER], pair)
    call MPI_Type_create_resized(pair, 0_MPI_ADDRESS_KIND, 16_MPI_ADDRESS_KIND, padded)
    call MPI_Type_commit(padded)
    call MPI_Type_free(pair)
  end subroutine

  subroutine halo(first, extent, type)
    integer, intent(in) :: first(2), extent(2)
    type(MPI_Datatype), intent(out) :: type
    call MPI_Type_create_subarray(2, own + 2, extent, first, MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, type)
    call MPI_Type_commit(type)
  end subroutine

  subroutine start()
    integer :: at(2)
    allocate (u(0:own(1) + 1, 0:own(2) + 1), before(0:own(1) + 1, 0:own(2) + 1), after(0:own(1) + 1, 0:own(2) + 1))
    u = 0
    do j = 1, own(2)
      do i = 1, own(1)
        at = [i, j] + coords*own - [n/3, n/2]
        u(i, j) = exp(-0.01d0*(at(1)**2 + at(2)**2))
      end do
    end do
    before = u
    after = u
  end subroutine

  subroutine exchange()
    do number = 1, 4
      call MPI_Irecv(u, 1, got(number), neighbours(number), number, cart, requests(number))
    end do
    do number = 1, 4
      call MPI_Isend(u, 1, sent(number), neighbours(number), merge(number + 1, number - 1, mod(number, 2) == 1), &
                     cart, requests(4 + number))
    end do
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
  end subroutine

  subroutine find_largest()
    call MPI_Comm_dup(cart, copy)
    call MPI_Comm_get_attr(copy, key, attribute, found)
    if (.not. found .or. attribute /= 13) call help_fail('an attribute', step)
    mine%value = maxval(u(1:own(1), 1:own(2)))
    mine%where = rank
    call MPI_Allreduce(mine, largest, 1, padded, op, copy)
    call MPI_Comm_free(copy)
  end subroutine

  subroutine put_out()
    offset = int(step/out_every - 1, MPI_OFFSET_KIND)*n*n*8
    call MPI_File_set_view(file, offset, MPI_DOUBLE_PRECISION, part, 'native', MPI_INFO_NULL)
    after(1:own(1), 1:own(2)) = u(1:own(1), 1:own(2))
    call MPI_File_write_all(file, after(1:own(1), 1:own(2)), product(own), MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
    energy = sum(u(1:own(1), 1:own(2))**2)
    call MPI_Reduce(energy, everyone, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, cart)
    if (rank /= 0) return
    write (*, '(a,i6,2(1x,es14.6),i4)') 'step', step, everyone, largest%value, largest%where
    open (newunit=unit, file='wave.txt', position='append', status='old')
    write (unit, *) step, largest%where
    close (unit)
  end subroutine
end program
