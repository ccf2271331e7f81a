/* installed.S - nothing: a library for the linker, whose name is that of an installed one (vk_stand_in.c). */
    .section .note.GNU-stack, "", @progbits
