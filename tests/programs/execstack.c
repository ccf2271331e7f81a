/* execstack - a library that is marked as in need of executable stacks; its code is of no use. */
int execstack_is_loaded(void);

int execstack_is_loaded(void)
{
    return 1;
}
