#include "exec/library.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

void *library_load(const char *path, const char *symbol, bool global, const void **object,
                   struct err *e)
{
    const char *slash = strrchr(path, '/');
    void *handle;

    if (access(path, F_OK)) {
        err_set(e, ERR_EXTERNAL,
                "cannot load %s: there is no '%s'; `ballast doctor` says where it is built",
                slash ? slash + 1 : path, path);
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : 0));
    if (!handle) {
        err_set(e, ERR_EXTERNAL, "cannot load %s", dlerror());
        return NULL;
    }
    *object = dlsym(handle, symbol);
    if (*object)
        return handle;
    dlclose(handle);
    err_set(e, ERR_EXTERNAL, "'%s' has no %s: it is not of this program", path, symbol);
    return NULL;
}
