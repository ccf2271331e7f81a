C     fortran77.f - mpif.h: a ring of halos, sentinels, attributes and
C     an operation of MPI-1, statuses, character arguments, persistent
C     and generalized requests.
      program main
      implicit none
      include 'mpif.h'
      external copyit, dropit, modsum
      integer n
      parameter (n = 1000)
      integer ierr, rank, size, left, right, step, steps, help_steps
      integer key, extra, value, op, comm, i, length, color
      integer req(4), stats(MPI_STATUS_SIZE, 4), stat(MPI_STATUS_SIZE)
      integer a(n), b(n), c(n), kept, held, index, total, next
      integer pair(2), mine, theirs
      logical flag
      character*(MPI_MAX_OBJECT_NAME) name
      character*(MPI_MAX_ERROR_STRING) text
      double precision start
      integer copies, drops
      common /counts/ copies, drops

      copies = 0
      drops = 0
      call mpi_init(ierr)
      call help_begin('fortran77')
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_comm_size(MPI_COMM_WORLD, size, ierr)
      left = mod(rank + size - 1, size)
      right = mod(rank + 1, size)
      steps = help_steps()
      start = MPI_WTIME()
      extra = 77
      call mpi_keyval_create(copyit, dropit, key, extra, ierr)
      call mpi_op_create(modsum, .true., op, ierr)
      call mpi_attr_put(MPI_COMM_WORLD, key, 1000 + rank, ierr)
      call mpi_attr_get(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
      if (.not. flag .or. value .lt. 32767)
     &     call help_fail('MPI_TAG_UB', value)
C     A receive that is pending through lines: it is matched a step
C     later.
      call mpi_irecv(held, 1, MPI_INTEGER, left, 99, MPI_COMM_WORLD,
     &     next, ierr)
      call mpi_recv_init(theirs, 1, MPI_INTEGER, left, 6,
     &     MPI_COMM_WORLD, pair(1), ierr)
      call mpi_send_init(mine, 1, MPI_INTEGER, right, 6,
     &     MPI_COMM_WORLD, pair(2), ierr)
      do step = 1, steps
         mine = step * 100 + rank
         call again(pair, step)
         if (theirs .ne. step * 100 + left)
     &        call help_fail('persistent', theirs)
         do i = 1, n
            a(i) = step * 31 + rank * 7 + i
         end do
         call mpi_irecv(b, n, MPI_INTEGER, left, 1, MPI_COMM_WORLD,
     &        req(1), ierr)
         call mpi_irecv(c, n, MPI_INTEGER, MPI_ANY_SOURCE, 2,
     &        MPI_COMM_WORLD, req(2), ierr)
         call mpi_isend(a, n, MPI_INTEGER, right, 1, MPI_COMM_WORLD,
     &        req(3), ierr)
         call mpi_issend(a, n / 2, MPI_INTEGER, left, 2,
     &        MPI_COMM_WORLD, req(4), ierr)
         call mpi_waitall(4, req, stats, ierr)
         if (stats(MPI_SOURCE, 2) .ne. right)
     &        call help_fail('source', stats(MPI_SOURCE, 2))
         call mpi_get_count(stats(1, 2), MPI_INTEGER, length, ierr)
         if (length .ne. n / 2) call help_fail('count', length)
         if (b(n) .ne. step * 31 + left * 7 + n)
     &        call help_fail('halo', b(n))
         call mpi_allreduce(b(3), total, 1, MPI_INTEGER, op,
     &        MPI_COMM_WORLD, ierr)
         call mpi_allreduce(MPI_IN_PLACE, c, 4, MPI_INTEGER, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         call help_add(total, 4)
         call help_add(c, 16)
         call mpi_send(step, 1, MPI_INTEGER, right, 99, MPI_COMM_WORLD,
     &        ierr)
         call mpi_wait(next, MPI_STATUS_IGNORE, ierr)
         if (held .ne. step) call help_fail('held', held)
         call mpi_irecv(held, 1, MPI_INTEGER, left, 99, MPI_COMM_WORLD,
     &        next, ierr)
         if (mod(step, 10) .eq. 0) then
            color = mod(rank, 2)
            call mpi_comm_split(MPI_COMM_WORLD, color, -rank, comm,
     &           ierr)
            call mpi_comm_set_name(comm, 'half of the world', ierr)
            name = ' '
            call mpi_comm_get_name(comm, name, length, ierr)
            if (name .ne. 'half of the world' .or. length .ne. 17)
     &           call help_fail('name', length)
            call mpi_comm_free(comm, ierr)
            call mpi_comm_dup(MPI_COMM_WORLD, comm, ierr)
            call mpi_attr_get(comm, key, value, flag, ierr)
            if (.not. flag .or. value .ne. 1001 + rank)
     &           call help_fail('copied attribute', value)
            call mpi_isend(rank, 1, MPI_INTEGER, right, 5, comm,
     &           req(1), ierr)
            call mpi_probe(left, 5, comm, stat, ierr)
            call mpi_irecv(kept, 1, MPI_INTEGER, left, 5, comm,
     &           req(2), ierr)
            call mpi_waitany(2, req, index, stat, ierr)
            if (index .lt. 1 .or. index .gt. 2)
     &           call help_fail('index', index)
            call mpi_waitall(2, req, MPI_STATUSES_IGNORE, ierr)
            if (kept .ne. left) call help_fail('kept', kept)
            call mpi_comm_free(comm, ierr)
            call general()
         end if
         call mpi_attr_get(MPI_COMM_WORLD, key, value, flag, ierr)
         if (.not. flag .or. value .ne. 1000 + rank)
     &        call help_fail('attribute', value)
         call help_step(step)
      end do
      call mpi_send(step, 1, MPI_INTEGER, right, 99, MPI_COMM_WORLD,
     &     ierr)
      call mpi_wait(next, stat, ierr)
      call mpi_request_free(pair(1), ierr)
      call mpi_request_free(pair(2), ierr)
      if (pair(1) .ne. MPI_REQUEST_NULL) call help_fail('free', pair(1))
      call mpi_error_string(MPI_ERR_TAG, text, length, ierr)
      if (length .lt. 5 .or. text(1:8) .ne. 'MPI_ERR_')
     &     call help_fail('error string', length)
      if (copies .ne. steps / 10) call help_fail('copies', copies)
      call mpi_attr_delete(MPI_COMM_WORLD, key, ierr)
      if (drops .ne. steps / 10 + 1) call help_fail('drops', drops)
      call mpi_keyval_free(key, ierr)
      call mpi_op_free(op, ierr)
      if (MPI_WTIME() .lt. start) call help_fail('clock', 0)
      call help_end()
      call mpi_finalize(ierr)
      end

      subroutine modsum(in, inout, count, type)
      implicit none
      include 'mpif.h'
      integer count, type, in(count), inout(count), i
      if (type .ne. MPI_INTEGER) call help_fail('type', type)
      do i = 1, count
         inout(i) = mod(in(i) + inout(i), 100003)
      end do
      end

      subroutine copyit(comm, key, extra, old, new, flag, ierr)
      implicit none
      integer comm, key, extra, old, new, ierr
      logical flag
      integer copies, drops
      common /counts/ copies, drops
      if (extra .ne. 77) call help_fail('extra state', extra)
      copies = copies + 1
      new = old + 1
      flag = .true.
      ierr = 0
      end

      subroutine dropit(comm, key, old, extra, ierr)
      implicit none
      integer comm, key, old, extra, ierr
      integer copies, drops
      common /counts/ copies, drops
      if (extra .ne. 77) call help_fail('extra state', extra)
      drops = drops + 1
      ierr = 0
      end

C     Starts two persistent requests and completes them, each step in
C     another way. They keep their integers.
      subroutine again(req, step)
      implicit none
      include 'mpif.h'
      integer req(2), step, old(2), i, way, which, done, total, ierr
      integer stats(MPI_STATUS_SIZE, 2), indices(2)
      logical flag
      old(1) = req(1)
      old(2) = req(2)
      call mpi_startall(2, req, ierr)
      way = mod(step, 8)
      total = 0
      flag = .false.
      if (way .eq. 0) then
         call mpi_waitall(2, req, stats, ierr)
      else if (way .eq. 1) then
         call mpi_wait(req(1), stats, ierr)
         call mpi_wait(req(2), MPI_STATUS_IGNORE, ierr)
      else if (way .eq. 2) then
         call mpi_waitany(2, req, which, stats, ierr)
         call mpi_waitany(2, req, i, stats, ierr)
         if (which + i .ne. 3) call help_fail('waitany', i)
         call mpi_waitany(2, req, i, stats, ierr)
         if (i .ne. MPI_UNDEFINED) call help_fail('no wait', i)
      else if (way .eq. 3) then
         do while (total .lt. 2)
            call mpi_waitsome(2, req, done, indices, stats, ierr)
            if (indices(1) .lt. 1 .or. indices(1) .gt. 2)
     &           call help_fail('waitsome', indices(1))
            total = total + done
         end do
      else if (way .eq. 4) then
         do while (.not. flag)
            call mpi_testall(2, req, flag, stats, ierr)
         end do
      else if (way .eq. 5) then
         do i = 1, 2
            flag = .false.
            do while (.not. flag)
               call mpi_test(req(i), flag, stats, ierr)
            end do
         end do
      else if (way .eq. 6) then
         do while (total .lt. 2)
            call mpi_testany(2, req, which, flag, stats, ierr)
            if (flag) total = total + 1
            if (flag .and. (which .lt. 1 .or. which .gt. 2))
     &           call help_fail('testany', which)
         end do
      else
         do while (total .lt. 2)
            call mpi_testsome(2, req, done, indices, stats, ierr)
            total = total + done
         end do
      end if
      if (req(1) .ne. old(1)) call help_fail('first kept', way)
      if (req(2) .ne. old(2)) call help_fail('second kept', way)
      end

C     The callbacks of a generalized request can change its state.
      subroutine general()
      implicit none
      include 'mpif.h'
      external asked, freed, ended
      integer req, ierr
      integer (kind=MPI_ADDRESS_KIND) state
      common /general_state/ state
      state = 5
      call mpi_grequest_start(asked, freed, ended, state, req, ierr)
      call mpi_grequest_complete(req, ierr)
      call mpi_wait(req, MPI_STATUS_IGNORE, ierr)
      if (state .ne. 4) call help_fail('free function', req)
      if (req .ne. MPI_REQUEST_NULL) call help_fail('null', req)
      end

      subroutine asked(state, stat, ierr)
      implicit none
      include 'mpif.h'
      integer (kind=MPI_ADDRESS_KIND) state
      integer stat(MPI_STATUS_SIZE), ierr
      stat(MPI_SOURCE) = MPI_UNDEFINED
      stat(MPI_TAG) = MPI_UNDEFINED
      call mpi_status_set_cancelled(stat, .false., ierr)
      call mpi_status_set_elements(stat, MPI_BYTE, 0, ierr)
      end

      subroutine freed(state, ierr)
      implicit none
      include 'mpif.h'
      integer (kind=MPI_ADDRESS_KIND) state
      integer ierr
      state = state - 1
      ierr = MPI_SUCCESS
      end

      subroutine ended(state, flag, ierr)
      implicit none
      include 'mpif.h'
      integer (kind=MPI_ADDRESS_KIND) state
      logical flag
      integer ierr
      ierr = MPI_SUCCESS
      end
