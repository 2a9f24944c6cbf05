#include "cli/programs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool programs_is(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *programs_folder(struct arena *a, const char *argv0)
{
    char path[4096], *slash;
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n < 0) {
        n = argv0 ? (ssize_t)strlen(argv0) : 0;
        if (!n || (size_t)n >= sizeof(path))
            return NULL;
        memcpy(path, argv0, (size_t)n);
    }
    path[n] = 0;
    slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, (size_t)(slash - path)) : NULL;
}

char *programs_beside(struct arena *a, const char *file)
{
    const char *folder = programs_folder(a, NULL);

    return folder ? arena_printf(a, "%s/%s", folder, file) : arena_strdup(a, file);
}

char *programs_in_path(struct arena *a, const char *name)
{
    const char *p = getenv("PATH");

    while (p && *p) {
        size_t n = strcspn(p, ":");
        char *path = arena_printf(a, "%.*s/%s", (int)n, p, name);

        /* an empty entry would be the current folder: not from there */
        if (n && programs_is(path))
            return path;
        p += n + (p[n] == ':');
    }
    return NULL;
}
