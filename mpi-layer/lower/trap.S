/*
 * trap.S - assembly of the lower half: the entry of patched call sites, starting and resuming threads.
 * Offsets into struct thread, struct context are checked in gate.h and thread.c.
 */
#define GATE 0x15f000000000
    .text

/*
 * From a trampoline: eax = number, rcx = return address, arguments as for a system call. Every register
 * but rax, rcx and r11 is kept; the red zone is respected; vector registers are not touched
 * (vk_trampoline_call is compiled for general registers only). A call that is not done by it is made by the
 * instruction that the site kept, which traps, or from the page of code as a wait.
 */
    .macro restore_arguments        /* of the caller, with the stack at its return address */
    mov %rbx, %rsp
    pop %rbx
    pop %r9
    pop %r8
    pop %r10
    pop %rdx
    pop %rsi
    pop %rdi
    .endm

    .globl vk_trampoline_entry
    .type vk_trampoline_entry, @function
vk_trampoline_entry:
    lea -128(%rsp), %rsp
    push %rcx
    push %rdi
    push %rsi
    push %rdx
    push %r10
    push %r8
    push %r9
    push %rbx
    mov %rsp, %rbx
    and $-16, %rsp
    mov %gs:32, %ecx                /* entering the virtual kernel: see enter_vk in vdso.S */
    push %rcx
    push %rcx                       /* for the alignment */
    movl $1, %gs:32
    lea 64 + 128(%rbx), %rcx        /* the caller's stack pointer */
    push %rcx
    push %rax
    mov %r10, %rcx
    call vk_trampoline_call         /* (a, b, c, d, e, f, nr, rsp) */
    mov 16(%rsp), %rcx
    mov %ecx, %gs:32
    test %edx, %edx                 /* struct trap_verdict: what comes next */
    jne 3f
0:  restore_arguments
    cmpl $0, %gs:28                 /* thread->pending */
    jne 1f
    pop %rcx
    lea 128(%rsp), %rsp
    jmp *%rcx
1:  mov vk_resignal_address(%rip), %rcx
    jmp *%rcx                       /* the return address is on the stack, the red zone behind it */
3:  mov (%rsp), %rax                /* the number */
    cmp $2, %edx
    je 4f                           /* TRAP_NEXT_WAIT */
    ja 5f                           /* TRAP_NEXT_TRANSFER */
    subq $2, 56(%rbx)               /* return to the site's own system call */
    jmp 0b
4:  mov vk_wait_label(%rip), %r11   /* its entry */
    jmp 6f
5:  movabs $(GATE + 120), %r11
    mov (%r11), %r11                /* transfer_entry */
6:  restore_arguments
    pop %rcx                        /* where the call returns to */
    lea 128(%rsp), %rsp
    jmp *%r11                       /* looks at thread->pending itself */
    .size vk_trampoline_entry, . - vk_trampoline_entry


/* thread_jump(rdi = struct thread, rsi = address in the page of code, rdx = FS base): rbx is the thread there. */
    .globl thread_jump
    .type thread_jump, @function
thread_jump:
    wrfsbase %rdx
    mov %rdi, %rbx
    jmp *%rsi
    .size thread_jump, . - thread_jump

/* context_resume(rdi = struct context, rsi = FS base): go on where context_save was called; it returns 1. */
    .globl context_resume
    .type context_resume, @function
context_resume:
    wrfsbase %rsi
    ldmxcsr 64(%rdi)
    fldcw 68(%rdi)
    mov 0(%rdi), %rbx
    mov 8(%rdi), %rbp
    mov 16(%rdi), %r12
    mov 24(%rdi), %r13
    mov 32(%rdi), %r14
    mov 40(%rdi), %r15
    mov 48(%rdi), %rsp
    mov $1, %eax
    jmp *56(%rdi)
    .size context_resume, . - context_resume
    .section .note.GNU-stack, "", @progbits
