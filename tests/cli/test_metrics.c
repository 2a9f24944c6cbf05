/* The list of columns (cli/metrics.h) and docs/METRICS.md say the same. */
#include "cli/metrics.h"
#include "core/file.h"
#include "tests/suite.h"

#include <string.h>

static const char section[] = "## sim, compare and recommend";

/* Is `word` one of the words of the cell, which commas part? */
static bool has_word(const char *cell, const char *end, const char *word)
{
    size_t n = strlen(word);

    while (cell < end) {
        const char *next;

        cell += strspn(cell, " ,");
        next = cell + strcspn(cell, ",|");
        while (next > cell && next[-1] == ' ')
            next--;
        if ((size_t)(next - cell) == n && !memcmp(cell, word, n))
            return true;
        cell = next + strcspn(next, ",|");
        if (*cell == '|')
            return false;
    }
    return false;
}

/* Does the page define the key, and say under which header tables show it? NULL: it does; else what is missing. */
static const char *missing(const char *page, const char *key, const char *head)
{
    const char *line = strstr(page, section), *end = strstr(line, "\n**"), *cell;

    for (; line && line < end; line = strchr(line, '\n') + 1) {
        if (*line != '|' || !has_word(line + 1, end, key))
            continue;
        cell = strchr(line + 1, '|') + 1;
        if (head && (!strstr(cell, head) || strstr(cell, head) > strchr(cell, '|')))
            return "its header";
        return NULL;
    }
    return "its definition";
}

static char *page_text(void)
{
    struct err e = {0};
    char *text = NULL;
    size_t n;

    MUST(!file_read("docs/METRICS.md", 1 << 20, &text, &n, &e), "%s", e.msg);
    return text;
}

/* Every column that programs get is defined under its key and header; one that nobody has written about is found. */
START_TEST(every_column_is_defined)
{
    char *page = page_text();

    for (int i = 0; i < METRIC_N; i++) {
        const struct metric *m = metric((enum metric_id)i);
        const char *what = m->in == METRIC_IN_VIEWS ? NULL : missing(page, m->col.key, m->col.head);

        MUST(!what, "docs/METRICS.md: '%s' lacks %s (%s)", m->col.key, what,
             m->col.head ? m->col.head : "no header");
    }
    ck_assert_str_eq(missing(page, "planted_ms", NULL), "its definition");
    ck_assert_str_eq(missing(page, "step_ms", "planted"), "its header");
    mem_free(page);
}
END_TEST

/* ... and nothing else is. */
START_TEST(every_definition_has_a_column)
{
    char *page = page_text(), *at = strstr(page, section), *end = strstr(at, "\n**");
    int n = 0;

    *end = 0;
    at = strstr(at, "|---|");
    while ((at = strstr(at, "\n| "))) {
        char *stop, *key;

        at += 3;
        stop = strchr(at, '|');
        *stop = 0;
        for (key = strtok(at, ", "); key; key = strtok(NULL, ", ")) {
            bool found = false;

            for (int i = 0; i < METRIC_N && !found; i++)
                found = !strcmp(metric((enum metric_id)i)->col.key, key);
            MUST(found, "docs/METRICS.md defines '%s', which is no column", key);
            n++;
        }
        at = stop + 1;
    }
    ck_assert_int_gt(n, 40);
    mem_free(page);
}
END_TEST

/* Keys are unique, objects come last (in csv their commas stand in nobody's way), and each plot's bar has a title and a colour. */
START_TEST(the_list_is_in_order)
{
    struct metric_table t;
    bool objects = false;

    metric_table_rows(&t, METRIC_IN_ROWS | METRIC_IN_RECOMMEND);
    for (size_t i = 0; i < t.n; i++) {
        ck_assert(!objects || t.cols[i].kind == TABLE_JSON);
        objects = t.cols[i].kind == TABLE_JSON;
    }
    ck_assert(objects);
    metric_table_release(&t);
    for (int i = 0; i < METRIC_N; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(metric((enum metric_id)i)->col.key,
                             metric((enum metric_id)k)->col.key);
    for (int i = 0; i < TIME_N; i++)
        ck_assert(metric(metric_time_bars[i])->title && metric(metric_time_bars[i])->colour);
    for (int i = 0; i < MEM_PART_N; i++)
        ck_assert(metric(metric_memory_bars[i])->title && metric(metric_memory_bars[i])->colour);
}
END_TEST

SUITE_MAIN("cli/metrics", every_column_is_defined, every_definition_has_a_column,
           the_list_is_in_order)
