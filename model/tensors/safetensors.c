/* The header of a .safetensors file: 8 bytes of length, little-endian, and JSON that gives each tensor's type, shape and
 * place (https://github.com/huggingface/safetensors, "Format"). */
#include "core/file.h"
#include "core/num.h"
#include "model/tensors/tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HEADER = 100 << 20 }; /* the format's own limit is 100 MB */

/* Bits of an element; 0: a type that came later, whose sizes are not checked. */
static uint32_t bits_of(const char *dtype)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } types[] = {{"F64", 64}, {"I64", 64}, {"U64", 64},    {"F32", 32},
                 {"I32", 32}, {"U32", 32}, {"BF16", 16},   {"F16", 16},
                 {"I16", 16}, {"U16", 16}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
                 {"I8", 8},   {"U8", 8},   {"BOOL", 8},    {"F8_E8M0", 8}};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(dtype, types[i].name))
            return types[i].bits;
    return 0;
}

/* Offsets in order and as far apart as the elements take; *end is the largest end so far. */
static int check_offsets(const struct json_at *at, const struct file_tensor *t, uint64_t *end,
                         struct err *e)
{
    uint64_t n = bits_of(t->dtype) / 8, from, to;
    struct json_at list, it;
    size_t count;

    if (json_array(at, "data_offsets", &list, &count, e))
        return -1;
    if (count != 2)
        return json_err(&list, ERR_INVALID, e, "has %zu entries, expected begin and end", count);
    json_first(&list, &it);
    if (json_as_u64(&it, 0, JSON_EXACT, &from, e))
        return -1;
    json_next(&it);
    if (json_as_u64(&it, from, JSON_EXACT, &to, e))
        return -1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!num_mul(n, t->shape[i], &n))
            return json_err(at, ERR_OVERFLOW, e, "has more than 2^63 bytes");
    if (n && to - from != n)
        return json_err(&list, ERR_INVALID, e,
                        "are %" PRIu64 " bytes apart, but its shape and type take %" PRIu64,
                        to - from, n);
    *end = num_max(*end, to);
    return 0;
}

static int read_tensor(const struct json_at *at, struct arena *a, struct tensor_list *l,
                       uint64_t *end, struct err *e)
{
    struct json_at shape;
    struct file_tensor *t;
    const char *dtype;

    if (json_is_object(at, e) || json_str(at, "dtype", &dtype, e) ||
        json_get(at, "shape", &shape, e))
        return -1;
    t = tensor_list_add(l, json_key(at), a);
    t->dtype = arena_strdup(a, dtype);
    return tensor_shape(&shape, t, e) || check_offsets(at, t, end, e) ? -1 : 0;
}

int safetensors_parse(const char *text, size_t len, const char *file, struct arena *a,
                      struct tensor_list *l, struct err *e)
{
    struct json_at top, it;
    uint64_t end = 0;
    struct json j;
    int rc = -1;

    if (json_parse(&j, file, text, len, e))
        return -1;
    top = json_top(&j);
    if (json_is_object(&top, e))
        goto out;
    l->has_shapes = true;
    for (bool ok = json_first(&top, &it); ok; ok = json_next(&it))
        if (strcmp(json_key(&it), "__metadata__") != 0 && read_tensor(&it, a, l, &end, e))
            goto out;
    rc = 0;
out:
    json_release(&j);
    return rc;
}

int safetensors_read(const char *path, struct arena *a, struct tensor_list *l, struct err *e)
{
    unsigned char head[8];
    uint64_t len = 0;
    char *text = NULL;
    int fd = file_open_input(path, e), rc = -1;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");

    if (fd < 0)
        return -1;
    if (!f) {
        close(fd);
        return err_set(e, ERR_IO, "'%.300s': %s", path, strerror(errno));
    }
    if (fread(head, 1, 8, f) != 8) {
        err_set(e, ERR_PARSE, "'%.300s': shorter than the 8 bytes that begin a .safetensors file",
                path);
        goto out;
    }
    for (int i = 7; i >= 0; i--)
        len = len << 8 | head[i];
    if (len < 2 || len > MAX_HEADER) {
        err_set(e, ERR_PARSE,
                "'%.300s': its first 8 bytes say that the header has %" PRIu64
                " bytes, expected 2 to %d: not a .safetensors file",
                path, len, MAX_HEADER);
        goto out;
    }
    text = mem_alloc(len, 1);
    if (fread(text, 1, len, f) != len) {
        err_set(e, ERR_PARSE, "'%.300s': ends inside its header of %" PRIu64 " bytes", path, len);
        goto out;
    }
    rc = safetensors_parse(text, len, path, a, l, e);
out:
    mem_free(text);
    fclose(f);
    return rc;
}
