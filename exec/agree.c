#include "exec/agree.h"

#include "core/mem.h"

#include <string.h>

uint64_t agree_hash(const void *data, size_t n)
{
    const unsigned char *x = data;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ x[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* A line is name, value and note with tabs between. */
static void put(struct strbuf *to, const char *s)
{
    for (; *s; s++)
        strbuf_putc(to, *s == '\t' || *s == '\n' ? ' ' : *s);
}

void agree_fact(struct strbuf *facts, const char *name, const char *note, const char *value)
{
    put(facts, name);
    strbuf_putc(facts, '\t');
    put(facts, value);
    strbuf_putc(facts, '\t');
    put(facts, note ? note : "");
    strbuf_putc(facts, '\n');
}

struct line {
    const char *name, *value, *note;
    int n_name, n_value, n_note;
};

static struct line line_of(const char *s)
{
    struct line l = {.name = s, .n_name = (int)strcspn(s, "\t\n")};

    l.value = s + l.n_name + (s[l.n_name] == '\t');
    l.n_value = (int)strcspn(l.value, "\t\n");
    l.note = l.value + l.n_value + (l.value[l.n_value] == '\t');
    l.n_note = (int)strcspn(l.note, "\n");
    return l;
}

static const char *next_line(const char *s)
{
    s += strcspn(s, "\n");
    return *s ? s + 1 : s;
}

static bool same(const char *a, int n_a, const char *b, int n_b)
{
    return n_a == n_b && !memcmp(a, b, (size_t)n_a);
}

/* Of all but the notes. */
static uint64_t hash_of(const char *s)
{
    uint64_t h = 0;

    for (; *s; s = next_line(s)) {
        struct line l = line_of(s);

        h = 31 * h + agree_hash(l.name, (size_t)l.n_name);
        h = 31 * h + agree_hash(l.value, (size_t)l.n_value);
    }
    return h;
}

/* Two texts that differ. */
static int tell(uint32_t rank, const char *first, const char *other, struct err *e)
{
    struct line a = line_of(first), b = line_of(other);

    while (*first && *other && same(a.name, a.n_name, b.name, b.n_name) &&
           same(a.value, a.n_value, b.value, b.n_value)) {
        first = next_line(first);
        other = next_line(other);
        a = line_of(first);
        b = line_of(other);
    }
    if (!same(a.name, a.n_name, b.name, b.n_name)) /* two versions of the program */
        return err_set(e, ERR_INVALID,
                       "ranks 0 and %u were not started alike: rank 0 has %.*s, rank %u %.*s", rank,
                       a.n_name, a.name, rank, b.n_name, b.name);
    return err_set(e, ERR_INVALID,
                   "ranks 0 and %u were not started alike: %.*s is %.*s%s%.*s on rank 0, and "
                   "%.*s%s%.*s on rank %u",
                   rank, a.n_name, a.name, a.n_value, a.value, a.n_note ? " " : "", a.n_note,
                   a.note, b.n_value, b.value, b.n_note ? " " : "", b.n_note, b.note, rank);
}

struct extent {
    uint64_t hash, length;
};

int agree_check(struct transport *t, const struct strbuf *facts, struct err *e)
{
    struct extent mine = {hash_of(facts->s), facts->len + 1},
                  *all = MEM_NEW(struct extent, t->size);
    size_t longest = 0;
    uint32_t other = 0;
    char *text, *texts;
    int status = transport_all_gather_control(t, &mine, sizeof(mine), all, e);

    for (uint32_t r = t->size; r-- > 0 && !status;) {
        other = all[r].hash != all[0].hash ? r : other;
        longest = all[r].length > longest ? all[r].length : longest;
    }
    mem_free(all);
    if (status || !other)
        return status;
    text = MEM_NEW(char, longest);
    texts = MEM_NEW(char, t->size *longest);
    memcpy(text, facts->s, facts->len);
    status = transport_all_gather_control(t, text, longest, texts, e);
    if (!status)
        status = tell(other, texts, texts + other * longest, e);
    mem_free(text);
    mem_free(texts);
    return status;
}
