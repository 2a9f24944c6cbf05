/* Runs a fuzz target over the files given as arguments, without a fuzzer: `make test` replays each corpus with it.
 * The empty input always comes first. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t len = 0, cap = 0, n;

    if (!f) {
        perror(path);
        return -1;
    }
    do {
        if (len == cap) {
            cap = cap ? 2 * cap : 4096;
            data = realloc(data, cap);
            if (!data)
                abort();
        }
        n = fread(data + len, 1, cap - len, f);
        len += n;
    } while (n);
    fclose(f);
    /* exactly len bytes, so that a sanitizer sees the first byte too many */
    data = realloc(data, len ? len : 1);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, len);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int rc = 0;

    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        rc |= replay(argv[i]);
    return rc ? 1 : 0;
}
