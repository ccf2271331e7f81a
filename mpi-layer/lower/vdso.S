/*
 * vdso.S - the page of code at VDSO_ADDRESS: a stand-in for the kernel's vdso, and the code that signal
 * frames of the application may point into. It lies at one address in every launch, so that a frame on a
 * saved stack is still good after a restart; the kernel's own vdso does not.
 *
 * Offsets into struct gate and struct thread are checked in gate.h.
 */
#define GATE 0x15f000000000
#define VK 0x160000000000

    .cfi_sections .debug_frame /* for debuggers; nothing of it is mapped */
    .text

/*
 * The kernel's functions, through the gate: their addresses change with every launch. A thread that is in
 * one of them must not park, for the same reason, so it counts as in the virtual kernel; if CONTROL_SIGNAL
 * came meanwhile it is sent again on the way out.
 */
.macro forward name offset
    .globl __vdso_\name
    .type __vdso_\name, @function
__vdso_\name:
    sub $8, %rsp
    incl %gs:32                     /* thread->in_vk */
    movabs (GATE + \offset), %rax
    call *%rax
    jmp leave_kernel_function
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
    decl %gs:32
    cmpl $0, %gs:28                 /* thread->pending */
    je 1f
    cmpl $0, %gs:24                 /* thread->depth: a wrapper looks itself */
    jne 1f
    movl $0, %gs:28
    push %rax
    mov %gs:36, %edi
    mov %gs:40, %esi
    mov $62, %edx                   /* CONTROL_SIGNAL */
    mov $234, %eax                  /* tgkill */
    syscall
    pop %rax
1:  add $8, %rsp
    ret

/* sa_restorer of our own handler. */
    .globl __vdso_belay_restorer
    .type __vdso_belay_restorer, @function
__vdso_belay_restorer:
    mov $15, %eax
    syscall
    .size __vdso_belay_restorer, . - __vdso_belay_restorer

/*
 * Handler of CONTROL_SIGNAL. While the upper half's safe point runs (and possibly parks), the stack holds
 * only frames of this page and of the upper half.
 */
    .globl __vdso_belay_signal
    .type __vdso_belay_signal, @function
__vdso_belay_signal:
    push %rbx                       /* also aligns the stack */
    mov %rdx, %rbx
    movabs (GATE + 80), %rax
    call *%rax                      /* signal_is_safe(signal, info, ucontext) */
    test %eax, %eax
    je 1f
    mov %gs:0, %rdi
    movabs $(VK + 16), %rax
    call *(%rax)                    /* vk->safepoint(thread) */
1:  mov %rbx, %rdi
    movabs (GATE + 72), %rax
    call *%rax                      /* wait_interrupted(ucontext) */
    pop %rbx
    ret
    .size __vdso_belay_signal, . - __vdso_belay_signal

/*
 * Wrapper of the application's handlers: a signal may hit the lower half, whose FS base is another one.
 * The handler's own address is taken from struct vk. The stack on entry: return address (restorer).
 */
    .globl __vdso_belay_wrap
    .type __vdso_belay_wrap, @function
__vdso_belay_wrap:
    push %rbx
    push %r12
    push %r13
    movslq %edi, %rax
    shl $5, %rax                    /* sizeof(struct vk_action) */
    movabs $(VK + 64), %r13
    mov (%r13,%rax), %r13
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
3:  pop %r13
    pop %r12
    pop %rbx
    ret
    .size __vdso_belay_wrap, . - __vdso_belay_wrap

/*
 * Way out of the virtual kernel when CONTROL_SIGNAL came meanwhile: send it again, to ourselves, with the
 * stack free of lower frames. Entered with the return address pushed below the red zone.
 */
    .globl __vdso_belay_resignal
    .type __vdso_belay_resignal, @function
__vdso_belay_resignal:
    push %rax
    push %rdi
    push %rsi
    push %rdx
    mov %gs:36, %edi
    mov %gs:40, %esi
    mov $62, %edx                   /* CONTROL_SIGNAL */
    mov $234, %eax                  /* tgkill */
    syscall
    pop %rdx
    pop %rsi
    pop %rdi
    pop %rax
    ret $128
    .size __vdso_belay_resignal, . - __vdso_belay_resignal

/* Where timed waits are made (vk_wait.c). The return address lies below the caller's red zone. */
    .globl __vdso_belay_wait
    .type __vdso_belay_wait, @function
__vdso_belay_wait:
    .cfi_startproc
    .cfi_def_cfa rsp, 136
    .cfi_offset rip, -136
    syscall
    ret $128
    .cfi_endproc
    .size __vdso_belay_wait, . - __vdso_belay_wait
    .section .note.GNU-stack, "", @progbits
