#include "core/table.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static const struct table_col cols[] = {
    {.key = "layout", .head = "layout", .kind = TABLE_TEXT},
    {.key = "gpus", .head = "GPUs", .kind = TABLE_INT},
    {.key = "bytes", .head = "bytes", .kind = TABLE_COUNT},
    {.key = "step_ms", .head = "step ms", .kind = TABLE_FIXED, .decimals = 1},
    {.key = "memory_gib", .head = "GiB", .kind = TABLE_GIB, .decimals = 2},
    {.key = "fits", .head = "fits", .kind = TABLE_BOOL},
    {.key = "parts", .kind = TABLE_JSON},
};
static struct table t;

static void fill(void)
{
    cJSON *parts = json_new_object();

    table_init(&t, cols, sizeof(cols) / sizeof(cols[0]));
    table_row(&t);
    table_set_str(&t, "layout", "zero3+\"owner\", a|b");
    table_set_u64(&t, "gpus", 64);
    table_set_u64(&t, "bytes", 1234567);
    table_set_double(&t, "step_ms", 1234.5678);
    table_set_u64(&t, "memory_gib", UINT64_C(3) << 29);
    table_set_bool(&t, "fits", true);
    json_add_u64(parts, "params", 5);
    table_set_json(&t, "parts", parts);
    table_row(&t);
    table_set_str(&t, "layout", "ddp");
    table_set_double(&t, "step_ms", NAN);
    table_set_bool(&t, "fits", false);
}

static void expect(enum table_format format, const char *text)
{
    struct strbuf b;

    strbuf_init(&b);
    table_print(&t, format, &b);
    ck_assert_str_eq(b.s, text);
    strbuf_release(&b);
}

START_TEST(a_table_is_aligned_and_rounded)
{
    fill();
    expect(TABLE_AS_TABLE, "layout              GPUs      bytes  step ms   GiB  fits\n"
                           "--------------------------------------------------------\n"
                           "zero3+\"owner\", a|b    64  1,234,567   1234.6  1.50   yes\n"
                           "ddp                    -          -        -     -    no\n");
    table_release(&t);
}
END_TEST

START_TEST(csv_quotes_and_keeps_precision)
{
    fill();
    expect(TABLE_AS_CSV,
           "layout,gpus,bytes,step_ms,memory_gib,fits,parts\n"
           "\"zero3+\"\"owner\"\", a|b\",64,1234567,1234.5678,1.5,true,\"{\"\"params\"\":5}\"\n"
           "ddp,,,,,false,\n");
    table_release(&t);
}
END_TEST

/* A name from a file is text wherever it is opened: a page does not run its tags, a spreadsheet not its formulas. */
START_TEST(names_from_files_are_text_everywhere)
{
    static const struct {
        const char *name, *md, *csv;
    } of[] = {{"<script>x</script>", "&lt;script>x&lt;/script>", "<script>x</script>"},
              {"a&b", "a&amp;b", "a&b"},
              {"a\\|b", "a\\\\\\|b", "a\\|b"},
              {"=1+2", "=1+2", "\"'=1+2\""},
              {"+cmd", "+cmd", "\"'+cmd\""},
              {"-2+3", "-2+3", "\"'-2+3\""},
              {"@sum", "@sum", "\"'@sum\""},
              {"--nodes 2", "--nodes 2", "\"--nodes 2\""},
              {"-", "-", "\"-\""},
              {"zero3+owner", "zero3+owner", "zero3+owner"}};
    static const struct table_col one[] = {{.key = "n", .head = "n", .kind = TABLE_TEXT}};

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct strbuf b;

        table_init(&t, one, 1);
        table_row(&t);
        table_set_str(&t, "n", of[i].name);
        strbuf_init(&b);
        table_print(&t, TABLE_AS_MD, &b);
        MUST(strstr(b.s, of[i].md), "%s as md: %s", of[i].name, b.s);
        strbuf_clear(&b);
        table_print(&t, TABLE_AS_CSV, &b);
        MUST(!strncmp(b.s, "n\n", 2) && !strncmp(b.s + 2, of[i].csv, strlen(of[i].csv)) &&
                 !strcmp(b.s + 2 + strlen(of[i].csv), "\n"),
             "%s as csv: %s", of[i].name, b.s);
        strbuf_release(&b);
        table_release(&t);
    }
}
END_TEST

START_TEST(md_escapes_bars)
{
    fill();
    expect(TABLE_AS_MD, "| layout             | GPUs |     bytes | step ms |  GiB | fits |\n"
                        "|--------------------|-----:|----------:|--------:|-----:|-----:|\n"
                        "| zero3+\"owner\", a\\|b |   64 | 1,234,567 |  1234.6 | 1.50 |  yes |\n"
                        "| ddp                |    - |         - |       - |    - |   no |\n");
    table_release(&t);
}
END_TEST

START_TEST(json_has_every_key_in_every_row)
{
    fill();
    expect(TABLE_AS_JSON, "[\n"
                          "  {\n"
                          "    \"layout\": \"zero3+\\\"owner\\\", a|b\",\n"
                          "    \"gpus\": 64,\n"
                          "    \"bytes\": 1234567,\n"
                          "    \"step_ms\": 1234.5678,\n"
                          "    \"memory_gib\": 1.5,\n"
                          "    \"fits\": true,\n"
                          "    \"parts\": {\n"
                          "      \"params\": 5\n"
                          "    }\n"
                          "  },\n"
                          "  {\n"
                          "    \"layout\": \"ddp\",\n"
                          "    \"gpus\": null,\n"
                          "    \"bytes\": null,\n"
                          "    \"step_ms\": null,\n"
                          "    \"memory_gib\": null,\n"
                          "    \"fits\": false,\n"
                          "    \"parts\": null\n"
                          "  }\n"
                          "]\n");
    table_release(&t);
}
END_TEST

START_TEST(no_rows_still_have_a_head)
{
    table_init(&t, cols, 2);
    expect(TABLE_AS_TABLE, "layout  GPUs\n------------\n");
    expect(TABLE_AS_CSV, "layout,gpus\n");
    expect(TABLE_AS_JSON, "[]\n");
    expect(TABLE_AS_MD, "| layout | GPUs |\n|--------|-----:|\n");
    table_release(&t);
}
END_TEST

START_TEST(a_set_cell_can_be_set_again)
{
    table_init(&t, cols, sizeof(cols) / sizeof(cols[0]));
    table_row(&t);
    table_set_json(&t, "parts", json_new_object());
    table_set_json(&t, "parts", json_new_array());
    table_set_str(&t, "layout", "a");
    table_set_str(&t, "layout", NULL);
    ck_assert_int_eq(t.cells[0].state, TABLE_MISSING);
    table_release(&t);
}
END_TEST

static const struct table_col many[] = {
    {.key = "a", .head = "name", .kind = TABLE_TEXT},
    {.key = "b", .head = "number b", .kind = TABLE_INT},
    {.key = "c", .head = "why", .kind = TABLE_TEXT},
    {.key = "d", .head = "number d", .kind = TABLE_INT},
    {.key = "e", .head = "number e", .kind = TABLE_INT},
};

/* Longest line, counting a UTF-8 sequence as one. */
static size_t widest(const char *s)
{
    size_t best = 0, n = 0;

    for (; *s; s++) {
        n = *s == '\n' ? 0 : n + (((unsigned char)*s & 0xc0) != 0x80);
        best = n > best ? n : best;
    }
    return best;
}

START_TEST(long_texts_are_cut_to_fit_120_columns)
{
    struct strbuf b;

    strbuf_init(&b);
    table_init(&t, many, 5);
    table_row(&t);
    table_set_str(&t, "a", "m\xc3\xbcon");
    for (int i = 0; i < 40; i++)
        strbuf_puts(&b, "\xc3\xa9t\xc3\xa9 ");
    table_set_str(&t, "c", b.s);
    strbuf_clear(&b);
    table_print(&t, TABLE_AS_TABLE, &b);
    ck_assert_uint_eq(widest(b.s), 120);
    ck_assert_ptr_nonnull(strstr(b.s, "..."));
    ck_assert_ptr_nonnull(strstr(b.s, "number e"));
    strbuf_release(&b);
    table_release(&t);
}
END_TEST

START_TEST(too_many_columns_continue_below_with_the_first_repeated)
{
    struct table_col wide[20];
    char heads[20][16];
    struct strbuf b;
    int names = 0;

    for (int i = 0; i < 20; i++) {
        snprintf(heads[i], sizeof(heads[i]), "column %02d", i);
        wide[i] = (struct table_col){.key = heads[i], .head = heads[i], .kind = TABLE_INT};
    }
    strbuf_init(&b);
    table_init(&t, wide, 20);
    table_row(&t);
    table_set_u64(&t, "column 00", 4242);
    table_print(&t, TABLE_AS_TABLE, &b);
    ck_assert_uint_le(widest(b.s), 120);
    for (int i = 0; i < 20; i++)
        ck_assert_ptr_nonnull(strstr(b.s, heads[i]));
    for (const char *p = b.s; (p = strstr(p, "4242")); p++)
        names++;
    ck_assert_int_eq(names, 2); /* 9 + 10 * 11 = 119 wide: 11 columns, then 9 */
    strbuf_release(&b);
    table_release(&t);
}
END_TEST

SUITE_MAIN("core/table", a_table_is_aligned_and_rounded, csv_quotes_and_keeps_precision,
           md_escapes_bars, names_from_files_are_text_everywhere, json_has_every_key_in_every_row,
           no_rows_still_have_a_head, a_set_cell_can_be_set_again,
           long_texts_are_cut_to_fit_120_columns,
           too_many_columns_continue_below_with_the_first_repeated)
