/*
 * vdso.S - the page of code at VDSO_ADDRESS: a stand-in for the kernel's vdso, and the code that signal
 * frames of the application may point into. It lies at one address in every launch, so that a frame on a
 * saved stack is still good after a restart; the kernel's own vdso does not.
 *
 * Offsets into struct gate and struct thread are checked in gate.h.
 */
#define GATE 0x15f000000000
#define VK 0x160000000000

    .cfi_sections .eh_frame, .debug_frame
    .text

/*
 * Signals of the application came inside the virtual kernel, or CONTROL_SIGNAL while this was no place to park:
 * send them again, to ourselves. At `mask` the stack has a free word, and is aligned. Destroys what a function
 * may.
 */
.macro signal_again_if_pending mask
    cmpl $0, %gs:28                 /* thread->pending */
    je 9f
    testl $4, %gs:28                /* THREAD_PENDING_HANDLERS */
    je 8f
    cmpl $0, %gs:32                 /* thread->in_vk: whoever is below sees to it */
    jne 9f
    movl $1, %gs:32
    lea \mask(%rsp), %rdi
    movabs (GATE + 128), %rax
    call *%rax                      /* handlers_again(mask) */
    movl $0, %gs:32
    mov $2, %edi                    /* SIG_SETMASK: here they come */
    lea \mask(%rsp), %rsi
    xor %edx, %edx
    mov $8, %r10d
    mov $14, %eax                   /* rt_sigprocmask */
    syscall
    cmpl $0, %gs:28
    je 9f
8:  cmpl $0, %gs:24                 /* thread->depth: a wrapper looks itself */
    jne 9f
    andl $4, %gs:28
    mov %gs:36, %edi
    mov %gs:40, %esi
    mov $62, %edx                   /* CONTROL_SIGNAL */
    mov $234, %eax                  /* tgkill */
    syscall
9:
.endm

/* Enter and leave the virtual kernel, keeping what was before in a word on the stack. Destroys rcx. */
.macro enter_vk word
    mov %gs:32, %ecx
    mov %rcx, \word(%rsp)
    movl $1, %gs:32                 /* thread->in_vk */
.endm
.macro leave_vk word
    mov \word(%rsp), %rcx
    mov %ecx, %gs:32
.endm

/*
 * The kernel's functions, through the gate: their addresses change with every launch. A thread that is in
 * one of them must not park, for the same reason, so it counts as in the virtual kernel; if CONTROL_SIGNAL
 * came meanwhile it is sent again on the way out.
 */
.macro forward name offset
    .globl __vdso_\name
    .type __vdso_\name, @function
__vdso_\name:
    .cfi_startproc
    sub $24, %rsp
    .cfi_def_cfa_offset 32
    enter_vk 0
    movabs (GATE + \offset), %rax
    call *%rax
    jmp leave_kernel_function
    .cfi_endproc
    .size __vdso_\name, . - __vdso_\name
    .weak \name
    .set \name, __vdso_\name
.endm
    forward clock_gettime 0
    forward gettimeofday 8
    forward time 16
    forward getcpu 24
    forward clock_getres 32

leave_kernel_function:
    .cfi_startproc
    .cfi_def_cfa_offset 32
    leave_vk 0
    mov %rax, 16(%rsp)
    signal_again_if_pending 8
    mov 16(%rsp), %rax
    add $24, %rsp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc

/* sa_restorer of our own handler. */
    .globl __vdso_belay_restorer
    .type __vdso_belay_restorer, @function
__vdso_belay_restorer:
    mov $15, %rax                   /* this form, by which debuggers know a signal frame */
    syscall
    .size __vdso_belay_restorer, . - __vdso_belay_restorer

/*
 * Handler of CONTROL_SIGNAL. While the upper half's safe point runs (and possibly parks), the stack holds
 * only frames of this page and of the upper half. A signal with that number that is not ours, or a SIGSYS
 * that is not the filter's, is the application's.
 */
    .globl __vdso_belay_signal
    .type __vdso_belay_signal, @function
__vdso_belay_signal:
    .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    sub $16, %rsp
    .cfi_def_cfa_offset 32
    mov %rsi, (%rsp)
    mov %gs:240, %rax               /* thread->handlers */
    mov %rax, 8(%rsp)
    mov %rdx, %rbx
    movabs (GATE + 80), %rax
    call *%rax                      /* signal_is_safe(signal, info, ucontext) */
    cmp $1, %eax
    jb 1f
    ja 2f
    mov %gs:0, %rdi
    movabs $(VK + 16), %rax
    call *(%rax)                    /* vk->safepoint(thread) */
1:  mov %rbx, %rdi
    mov 8(%rsp), %rsi
    movabs (GATE + 72), %rax
    call *%rax                      /* wait_interrupted(ucontext, counts) */
    add $16, %rsp
    .cfi_remember_state
    .cfi_def_cfa_offset 16
    pop %rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_restore_state
2:  mov %eax, %edi
    mov (%rsp), %rsi
    mov %rbx, %rdx
    add $16, %rsp
    .cfi_def_cfa_offset 16
    pop %rbx
    .cfi_def_cfa_offset 8
    .cfi_restore rbx
    jmp __vdso_belay_wrap
    .cfi_endproc
    .size __vdso_belay_signal, . - __vdso_belay_signal

/*
 * Wrapper of the application's handlers: a signal may hit the lower half, whose FS base is another one.
 * handler_begins() tells the handler's own address, and makes the ids in siginfo_t the application's. Before
 * that is no place to park: these ids are other ones after a restart. The stack on entry: return address
 * (restorer), ucontext_t.
 */
#define WRAP_BYTES 64 /* a word for enter_vk, the arguments, four words from thread->hidden_mask on */
#define UC_SIGMASK 296
    .globl __vdso_belay_wrap
    .type __vdso_belay_wrap, @function
__vdso_belay_wrap:
    .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    push %r12
    .cfi_def_cfa_offset 24
    .cfi_offset r12, -24
    push %r13
    .cfi_def_cfa_offset 32
    .cfi_offset r13, -32
    sub $WRAP_BYTES, %rsp
    .cfi_def_cfa_offset 32 + WRAP_BYTES
    mov %rdi, 8(%rsp)
    mov %rsi, 16(%rsp)
    mov %rdx, 24(%rsp)
    mov %gs:208, %rax               /* hidden_mask */
    mov %rax, 32(%rsp)
    mov %gs:216, %rax               /* handler_frame, handler_stack */
    mov %rax, 40(%rsp)
    mov %gs:224, %rax
    mov %rax, 48(%rsp)
    mov %gs:232, %rax
    mov %rax, 56(%rsp)
    enter_vk 0
    .globl __vdso_belay_wrap_inside
    .type __vdso_belay_wrap_inside, @function
__vdso_belay_wrap_inside:
    movabs (GATE + 112), %rax
    call *%rax                      /* handler_begins(signal, info, ucontext, in_vk as it was) */
    mov %rax, %r13
    leave_vk 0
    test %r13, %r13
    je 3f
    signal_again_if_pending 0
    mov 8(%rsp), %rdi
    mov 16(%rsp), %rsi
    mov 24(%rsp), %rdx
    xor %eax, %eax
    rdfsbase %rbx
    mov %gs:16, %r12
    cmp %rbx, %r12
    je 2f
    test %r12, %r12                 /* before ld.so has set it up there is no other FS */
    je 2f
    wrfsbase %r12
    incl %gs:24                     /* the interrupted call is not at a safe point */
    call *%r13
    decl %gs:24
    wrfsbase %rbx
    jmp 3f
2:  call *%r13
3:  mov 32(%rsp), %rax
    mov %rax, %gs:208
    mov 40(%rsp), %rax
    mov %rax, %gs:216
    mov 48(%rsp), %rax
    mov %rax, %gs:224
    mov 56(%rsp), %rax
    mov %rax, %gs:232
    /* A handler that has changed the mask to go on with must not have blocked our signals. */
    btrq $61, (32 + WRAP_BYTES + UC_SIGMASK)(%rsp)
    btrq $30, (32 + WRAP_BYTES + UC_SIGMASK)(%rsp)
    add $WRAP_BYTES, %rsp
    .cfi_def_cfa_offset 32
    pop %r13
    .cfi_def_cfa_offset 24
    pop %r12
    .cfi_def_cfa_offset 16
    pop %rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size __vdso_belay_wrap, . - __vdso_belay_wrap

/*
 * Way out of the virtual kernel when signals came meanwhile, with the stack free of lower frames. Entered with
 * the return address pushed below the red zone; keeps all registers that a system call keeps.
 */
    .globl __vdso_belay_resignal
    .type __vdso_belay_resignal, @function
__vdso_belay_resignal:
    .cfi_startproc
    .cfi_def_cfa_offset 136
    .cfi_offset rip, -136
    push %rbx
    .cfi_def_cfa_offset 144
    .cfi_offset rbx, -144
    mov %rsp, %rbx
    .cfi_def_cfa_register rbx
    push %rax
    push %rdi
    push %rsi
    push %rdx
    push %r10
    push %r8
    push %r9
    sub $16, %rsp
    and $-16, %rsp
    signal_again_if_pending 0
    lea -56(%rbx), %rsp
    pop %r9
    pop %r8
    pop %r10
    pop %rdx
    pop %rsi
    pop %rdi
    pop %rax
    .cfi_def_cfa_register rsp
    pop %rbx
    .cfi_def_cfa_offset 136
    .cfi_restore rbx
    ret $128
    .cfi_endproc
    .size __vdso_belay_resignal, . - __vdso_belay_resignal

/*
 * Where waits are made (vk_wait.c): as if by the system call, with its number in rax; the address to go on at
 * is in rcx, which a system call destroys anyway. The caller's red zone is left alone. Behind it: the return
 * address, rbx, struct wait.
 */
#define WAIT_BYTES 384 /* behind it a word for enter_vk */
.macro make_wait
    lea -128(%rsp), %rsp
    .cfi_def_cfa_offset 128
    push %rcx
    .cfi_def_cfa_offset 136
    .cfi_offset rip, -136
    push %rbx
    .cfi_def_cfa_offset 144
    .cfi_offset rbx, -144
    mov %rsp, %rbx
    .cfi_def_cfa_register rbx
    sub $WAIT_BYTES + 16, %rsp
    and $-16, %rsp
    mov %rdi, (%rsp)
    mov %rsi, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %r10, 24(%rsp)
    mov %r8, 32(%rsp)
    mov %r9, 40(%rsp)
.endm

    .globl __vdso_belay_wait
    .type __vdso_belay_wait, @function
__vdso_belay_wait:
    .cfi_startproc
    .cfi_def_cfa rsp, 0
    .cfi_register rip, rcx
    make_wait
    mov %rax, 48(%rsp)
    enter_vk WAIT_BYTES
    mov %rsp, %rdi
    movabs (GATE + 88), %rax
    call *%rax                      /* wait_prepare(wait) */
1:  leave_vk WAIT_BYTES
    .globl __vdso_belay_wait_ready
__vdso_belay_wait_ready:
    mov %rax, 136(%rsp)
    signal_again_if_pending WAIT_BYTES
    cmpl $0, 116(%rsp)              /* goes_on */
    je 4f
    mov 120(%rsp), %rcx             /* watched */
    mov 56(%rsp), %rdi
    mov 64(%rsp), %rsi
    mov 72(%rsp), %rdx
    mov 80(%rsp), %r10
    mov 88(%rsp), %r8
    mov 96(%rsp), %r9
    mov 104(%rsp), %rax
    mov (%rcx), %ecx                /* a handler that runs from here on sends the thread to _over by itself */
    cmp 128(%rsp), %ecx
    jne __vdso_belay_wait_over
    .globl __vdso_belay_wait_syscall
__vdso_belay_wait_syscall:
    syscall
    cmpl $0, 112(%rsp)              /* has_end */
    je 5f
2:  enter_vk WAIT_BYTES
    mov %rsp, %rdi
    mov %rax, %rsi
    movabs (GATE + 96), %rax
    call *%rax                      /* wait_ended(wait, result) */
    jmp 1b
    .globl __vdso_belay_wait_over
__vdso_belay_wait_over:
    movl $1, 132(%rsp)              /* is_unmade */
    jmp 2b
4:  mov 136(%rsp), %rax
5:  mov (%rsp), %rdi
    mov 8(%rsp), %rsi
    mov 16(%rsp), %rdx
    mov 24(%rsp), %r10
    mov 32(%rsp), %r8
    mov 40(%rsp), %r9
    mov %rbx, %rsp
    .cfi_remember_state
    .cfi_def_cfa_register rsp
    pop %rbx
    .cfi_def_cfa_offset 136
    .cfi_restore rbx
    pop %rcx                        /* no ret: the processor would look for a call that there was not */
    .cfi_def_cfa_offset 128
    .cfi_register rip, rcx
    lea 128(%rsp), %rsp
    .cfi_def_cfa_offset 0
    jmp *%rcx
    .cfi_restore_state

/*
 * The rest of a call that our signal has cut short where it was made by itself: as above, with its result so
 * far in rax, its number and the thread's count of handlers (<< 32) in r11.
 */
    .globl __vdso_belay_wait_resume
__vdso_belay_wait_resume:
    .cfi_def_cfa rsp, 0
    .cfi_register rip, rcx
    .cfi_same_value rbx
    make_wait
    mov %r11, 48(%rsp)
    enter_vk WAIT_BYTES
    mov %rsp, %rdi
    mov %rax, %rsi
    movabs (GATE + 104), %rax
    call *%rax                      /* wait_resume(wait, result) */
    jmp 1b
    .cfi_endproc
    .size __vdso_belay_wait, . - __vdso_belay_wait

/*
 * Where patched calls that send or receive are made, with registers as for a wait. There is nothing to
 * prepare; our signal finds the number and the return address on the stack.
 */
    .globl __vdso_belay_transfer
    .type __vdso_belay_transfer, @function
__vdso_belay_transfer:
    .cfi_startproc
    .cfi_def_cfa rsp, 0
    .cfi_register rip, rcx
    cmpl $0, %gs:28                 /* thread->pending: a wait looks at it */
    jne __vdso_belay_wait
    lea -128(%rsp), %rsp
    .cfi_def_cfa_offset 128
    push %rcx
    .cfi_def_cfa_offset 136
    .cfi_offset rip, -136
    push %rax
    .cfi_def_cfa_offset 144
    .globl __vdso_belay_transfer_syscall
__vdso_belay_transfer_syscall:
    syscall
    lea 8(%rsp), %rsp
    .cfi_def_cfa_offset 136
    pop %rcx
    .cfi_def_cfa_offset 128
    .cfi_register rip, rcx
    lea 128(%rsp), %rsp
    .cfi_def_cfa_offset 0
    jmp *%rcx
    .cfi_endproc
    .size __vdso_belay_transfer, . - __vdso_belay_transfer

/*
 * Start of a new thread, whose struct thread is in rbx; the FS base is its own already. Its signals are
 * let in here and not before, so that CONTROL_SIGNAL finds it at a place to park.
 */
    .globl __vdso_belay_start
    .type __vdso_belay_start, @function
__vdso_belay_start:
    .cfi_startproc
    .cfi_undefined rip
    mov 104(%rbx), %rsp
    pushq 96(%rbx)                  /* below the new stack: popped by ret */
    mov $2, %edi                    /* SIG_SETMASK */
    lea 88(%rbx), %rsi
    xor %edx, %edx
    mov $8, %r10d
    mov $14, %eax                   /* rt_sigprocmask */
    syscall
    mov 120(%rbx), %rbp
    mov 128(%rbx), %r12
    mov 136(%rbx), %r13
    mov 144(%rbx), %r14
    mov 152(%rbx), %r15
    mov 160(%rbx), %rsi
    mov 168(%rbx), %rdx
    mov 176(%rbx), %r10
    mov 184(%rbx), %r8
    mov 192(%rbx), %r9
    mov 200(%rbx), %rdi
    mov 112(%rbx), %rbx
    xor %eax, %eax
    ret
    .cfi_endproc
    .size __vdso_belay_start, . - __vdso_belay_start
    .section .note.GNU-stack, "", @progbits
