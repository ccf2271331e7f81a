/*
 * library.c - the functions of libfabric that are no inline ones, loaded with the library at the first call.
 *
 * Loading takes 200 ms, since libraries of some providers look for their devices; an agent of a job on one
 * node is not to wait for that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include <rdma/fabric.h>

#define LIBRARY "libfabric.so.1"

static struct {
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const char *(*strerror)(int);
} library; /* NULL: it cannot be loaded */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return;
    *(void **)&library.getinfo = dlsym(handle, "fi_getinfo");
    *(void **)&library.freeinfo = dlsym(handle, "fi_freeinfo");
    *(void **)&library.dupinfo = dlsym(handle, "fi_dupinfo");
    *(void **)&library.fabric = dlsym(handle, "fi_fabric");
    *(void **)&library.strerror = dlsym(handle, "fi_strerror");
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    pthread_once(&once, load);
    return library.getinfo ? library.getinfo(version, node, service, flags, hints, info) : -ENOSYS;
}

void fi_freeinfo(struct fi_info *info)
{
    pthread_once(&once, load);
    if (library.freeinfo)
        library.freeinfo(info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    pthread_once(&once, load);
    return library.dupinfo ? library.dupinfo(info) : NULL;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    pthread_once(&once, load);
    return library.fabric ? library.fabric(attr, fabric, context) : -ENOSYS;
}

const char *fi_strerror(int code)
{
    pthread_once(&once, load);
    return library.strerror ? library.strerror(code) : LIBRARY " cannot be loaded";
}
