/*
 * context.S - context_save(struct context *): like setjmp. Returns 0 when it saves; the lower half's
 * context_resume() makes it return 1, in this process or in a restarted one. Vector registers need not be
 * kept across a call; the control words do.
 */
    .text
    .globl context_save
    .hidden context_save
    .type context_save, @function
context_save:
    mov %rbx, 0(%rdi)
    mov %rbp, 8(%rdi)
    mov %r12, 16(%rdi)
    mov %r13, 24(%rdi)
    mov %r14, 32(%rdi)
    mov %r15, 40(%rdi)
    lea 8(%rsp), %rax
    mov %rax, 48(%rdi)
    mov (%rsp), %rax
    mov %rax, 56(%rdi)
    stmxcsr 64(%rdi)
    fnstcw 68(%rdi)
    xor %eax, %eax
    ret
    .size context_save, . - context_save
    .section .note.GNU-stack, "", @progbits
