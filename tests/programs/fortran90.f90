! fortran90.f90 - use mpi: a Jacobi sweep with halos of derived types, MPI_BOTTOM, structures, groups, infos,
! MPI_IN_PLACE, MPI_Alltoallw, attributes with address-sized integers.
program main
  use mpi
  implicit none
  integer, parameter :: nx = 60, ny = 40
  double precision :: u(0:nx + 1, 0:ny + 1), v(0:nx + 1, 0:ny + 1), sums(2)
  double precision, volatile :: old ! sent and received by its address
  integer, volatile :: ghost
  integer :: ierr, rank, ranks, left, right, step, steps, i, j, row, column, structure, key, comm, group, part
  integer :: req(4), stats(MPI_STATUS_SIZE, 4), info, length, pieces(2), index, made(2)
  integer, allocatable :: counts(:), offsets(:), types(:), sent(:), got(:)
  integer(MPI_ADDRESS_KIND) :: addresses(2), value
  logical :: flag
  character(len=40) :: text
  integer, external :: help_steps
  external :: copy_twice

  call MPI_Init(ierr)
  call help_begin('fortran90')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  steps = help_steps()
  call MPI_Type_vector(ny, 1, nx + 2, MPI_DOUBLE_PRECISION, row, ierr)
  call MPI_Type_commit(row, ierr)
  call MPI_Type_contiguous(nx, MPI_DOUBLE_PRECISION, column, ierr)
  call MPI_Type_commit(column, ierr)
  call MPI_Comm_create_keyval(copy_twice, MPI_COMM_NULL_DELETE_FN, key, 5_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 2_MPI_ADDRESS_KIND**40 + rank, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, 'colour', '  blue  ', ierr)
  allocate (counts(ranks), offsets(ranks), types(ranks), sent(ranks), got(ranks))
  counts = 1
  types = MPI_INTEGER
  offsets = [(4*(i - 1), i=1, ranks)]
  u = 0
  forall (i=1:nx, j=1:ny) u(i, j) = mod(i*j + rank*17, 23)
  old = 0
  do step = 1, steps
    call MPI_Irecv(u(0, 1), 1, row, left, 1, comm, req(1), ierr)
    call MPI_Irecv(u(nx + 1, 1), 1, row, right, 2, comm, req(2), ierr)
    call MPI_Isend(u(nx, 1), 1, row, right, 1, comm, req(3), ierr)
    call MPI_Isend(u(1, 1), 1, row, left, 2, comm, req(4), ierr)
    call MPI_Waitall(4, req, stats, ierr)
    v = u
    do j = 1, ny
      do i = 1, nx
        v(i, j) = 0.25d0*(u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1)) + 0.01d0*mod(i + step, 7)
      end do
    end do
    u = v
    sums = [sum(abs(u(1:nx, 1:ny))), dble(rank)]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
    call help_add(sums, 16)
    ! A structure at absolute addresses, to the next rank.
    pieces = 1
    call MPI_Get_address(old, addresses(1), ierr)
    call MPI_Get_address(ghost, addresses(2), ierr)
    call MPI_Type_create_struct(2, pieces, addresses, [MPI_DOUBLE_PRECISION, MPI_INTEGER], structure, ierr)
    call MPI_Type_commit(structure, ierr)
    old = sums(1)
    ghost = step + rank
    call MPI_Sendrecv_replace(MPI_BOTTOM, 1, structure, mod(rank + 1, ranks), 3, mod(rank + ranks - 1, ranks), 3, &
                              comm, MPI_STATUS_IGNORE, ierr)
    if (ghost /= step + mod(rank + ranks - 1, ranks)) call help_fail('structure', ghost)
    call MPI_Type_free(structure, ierr)
    sent = [(100*rank + i + step, i=1, ranks)]
    call MPI_Alltoallw(sent, counts, offsets, types, got, counts, offsets, types, comm, ierr)
    if (got(ranks) /= 100*(ranks - 1) + rank + 1 + step) call help_fail('alltoallw', got(ranks))
    call MPI_Ialltoallw(sent, counts, offsets, types, got, counts, offsets, types, comm, req(1), ierr)
    call MPI_Comm_get_attr(comm, key, value, flag, ierr)
    if (.not. flag .or. value /= 2*(2_MPI_ADDRESS_KIND**40 + rank) + 5) call help_fail('attribute', rank)
    call MPI_Wait(req(1), MPI_STATUS_IGNORE, ierr)
    if (mod(step, 8) == 0) then
      call MPI_Comm_group(comm, group, ierr)
      call MPI_Group_incl(group, 1, [rank], part, ierr)
      call MPI_Group_size(part, length, ierr)
      if (length /= 1) call help_fail('group', length)
      call MPI_Group_free(part, ierr)
      call MPI_Group_free(group, ierr)
      call MPI_Info_get(info, 'colour', len(text), text, flag, ierr)
      if (.not. flag .or. text /= 'blue') call help_fail('info', len_trim(text))
      call MPI_Irecv(made(1), 1, MPI_INTEGER, MPI_PROC_NULL, 0, comm, req(1), ierr)
      call MPI_Irecv(made(2), 1, MPI_INTEGER, 0, 4, MPI_COMM_SELF, req(2), ierr)
      call MPI_Test(req(2), flag, MPI_STATUS_IGNORE, ierr)
      if (flag) call help_fail('flag', 1)
      call MPI_Waitany(1, req, index, MPI_STATUS_IGNORE, ierr)
      if (index /= 1) call help_fail('index', index)
      call MPI_Send(step, 1, MPI_INTEGER, 0, 4, MPI_COMM_SELF, ierr)
      call MPI_Wait(req(2), MPI_STATUS_IGNORE, ierr)
      if (made(2) /= step) call help_fail('self', made(2))
    end if
    call help_step(step)
  end do
  call help_add(u, 8*size(u))
  call MPI_Comm_free(comm, ierr)
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, key, ierr)
  call MPI_Comm_free_keyval(key, ierr)
  call MPI_Info_free(info, ierr)
  call MPI_Type_free(row, ierr)
  call MPI_Type_free(column, ierr)
  call help_end()
  call MPI_Finalize(ierr)
end program

subroutine copy_twice(comm, key, extra, old, new, flag, ierr)
  use mpi
  implicit none
  integer :: comm, key, ierr
  integer(MPI_ADDRESS_KIND) :: extra, old, new
  logical :: flag
  new = 2*old + extra
  flag = .true.
  ierr = MPI_SUCCESS
end subroutine
