#include "core/opts.h"
#include "tests/suite.h"

#include <string.h>

static const char *const optimizers[] = {"muon", "soap", "adamw", NULL};
static const char *const yes_no[] = {"yes", "no", NULL};
static const struct opt job[] = {
    {.name = "seq-len",
     .type = OPT_COUNT,
     .dflt = "4096",
     .min = 1,
     .max = 1 << 20,
     .help = "tokens"},
    {.name = "optimizer", .type = OPT_CHOICE, .choices = optimizers, .dflt = "muon"},
    {.name = "master-weights", .type = OPT_CHOICE, .choices = yes_no, .dflt = "yes"},
    {.name = "nodes", .type = OPT_COUNTS, .min = 1, .dflt_note = "the cluster's"},
    {.name = "bucket", .type = OPT_BYTES, .dflt = "64MiB"},
    {.name = "price", .type = OPT_DOUBLE},
    {.name = "objective", .type = OPT_LIST, .choices = optimizers},
};
static const struct opt own[] = {
    {.name = "output", .letter = 'o', .type = OPT_STRING, .meta = "FILE", .cli_only = true},
    {.name = "bw", .type = OPT_BANDWIDTH, .lo = JSON_ABOVE_0},
    {.name = "launch", .type = OPT_TIME, .dflt = "5us", .hi = 1},
    {.name = "check", .letter = 'c', .type = OPT_FLAG, .help = "compare"},
    OPT_HELP_ROW,
};

static struct opts o;
static struct err e;

static void start(void)
{
    opts_init(&o);
    opts_add(&o, "Job options", job, sizeof(job) / sizeof(job[0]));
    opts_add(&o, "Options", own, sizeof(own) / sizeof(own[0]));
}

/* Parse words separated by '|'. */
static int parse(const char *line)
{
    static char copy[500];
    char *argv[32];
    int argc = 0;

    start();
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *p = copy; *line; p = strchr(p, 0) + 1) {
        char *bar = strchr(p, '|');

        argv[argc++] = p;
        if (!bar)
            break;
        *bar = 0;
    }
    return opts_parse(&o, argc, argv, &e);
}

START_TEST(defaults_are_parsed_values)
{
    ck_assert_int_eq(parse(""), 0);
    ck_assert_uint_eq(opts_get(&o, "seq-len")->u64, 4096);
    ck_assert_int_eq(opts_get(&o, "seq-len")->set, OPT_UNSET);
    ck_assert_uint_eq(opts_get(&o, "bucket")->u64, 67108864);
    ck_assert_str_eq(opts_get(&o, "optimizer")->text, "muon");
    ck_assert(opts_get(&o, "launch")->d == 5e-6);
    ck_assert_ptr_null(opts_get(&o, "price")->text);
    opts_release(&o);
}
END_TEST

START_TEST(all_spellings_are_understood)
{
    ck_assert_msg(parse("model|--seq-len|8k|--optimizer=SOAP|-o|out.json|-c|--nodes=1,2,4Ki|second|"
                        "--bw|200Gb/s|--price|0.5|--objective|soap,muon|--|--not-an-option") == 0,
                  "%s", e.msg);
    ck_assert_uint_eq(opts_get(&o, "seq-len")->u64, 8000);
    ck_assert_int_eq(opts_get(&o, "seq-len")->set, OPT_FROM_CLI);
    ck_assert_str_eq(opts_get(&o, "optimizer")->text, "soap");
    ck_assert_uint_eq(opts_get(&o, "optimizer")->u64, 1);
    ck_assert_str_eq(opts_get(&o, "output")->text, "out.json");
    ck_assert_uint_eq(opts_get(&o, "check")->u64, 1);
    ck_assert_uint_eq(opts_get(&o, "nodes")->n_list, 3);
    ck_assert_uint_eq(opts_get(&o, "nodes")->u64s[2], 4096);
    ck_assert(opts_get(&o, "bw")->d == 25e9);
    ck_assert(opts_get(&o, "price")->d == 0.5);
    ck_assert_str_eq(opts_get(&o, "objective")->list[1], "muon");
    ck_assert_uint_eq(o.n_pos, 3);
    ck_assert_str_eq(o.pos[2], "--not-an-option");
    opts_release(&o);
    ck_assert_int_eq(parse("-oout|-"), 0);
    ck_assert_str_eq(opts_get(&o, "output")->text, "out");
    ck_assert_str_eq(o.pos[0], "-");
    opts_release(&o);
    ck_assert_int_eq(parse("-o|-"), 0);
    ck_assert_str_eq(opts_get(&o, "output")->text, "-");
    opts_release(&o);
}
END_TEST

START_TEST(wrong_command_lines_are_refused_in_one_line)
{
    static const struct {
        const char *line, *expected;
    } rows[] = {
        {"--seqlen|5", "unknown option '--seqlen' (did you mean '--seq-len'?)"},
        {"--zzzzzzz", "unknown option '--zzzzzzz', see --help"},
        {"-x", "unknown option '-x', see --help"},
        {"--=5", "unknown option '--', see --help"},
        {"--seq-len", "--seq-len needs a value"},
        {"--seq-len|--optimizer|soap", "--seq-len needs a value"},
        {"-o|-c", "--output needs a value"},
        {"--check=yes", "--check takes no value"},
        {"--seq-len|1|--seq-len|2", "--seq-len is given twice"},
        {"-c|--check", "--check is given twice"},
        {"--seq-len|0", "--seq-len: '0' is out of range, expected 1 to 1048576"},
        {"--seq-len|-5", "--seq-len: '-5' is not a count: expected a whole number like 12, 4k or "
                         "4Mi, not negative"},
        {"--optimizer|moun",
         "--optimizer: 'moun' is not one of muon, soap, adamw (did you mean 'muon'?)"},
        {"--nodes|1,0", "--nodes: '0' is too small, expected at least 1"},
        {"--nodes|1,,2", "--nodes: '1,,2' has an empty element, expected a,b,c"},
        {"--nodes|1,", "--nodes: '1,' has an empty element, expected a,b,c"},
        {"--nodes=", "--nodes: '' has an empty element, expected a,b,c"},
        {"--output=", "--output: is empty, expected a text"},
        {"--bw|0", "--bw: '0' is too small, expected more than 0"},
        {"--launch|2s", "--launch: '2s' is out of range, expected 0 to 1"},
        {"--price|nan", "--price: 'nan' is not a number: expected digits like 0.25 or 1e-3"},
        {"--objective|muon,x", "--objective: 'x' is not one of muon, soap, adamw"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(parse(rows[i].line) == -1, "accepted: %s", rows[i].line);
        ck_assert_str_eq(e.msg, rows[i].expected);
        ck_assert_int_eq(e.code, ERR_USAGE);
        opts_release(&o);
    }
}
END_TEST

START_TEST(positionals_are_counted)
{
    ck_assert_int_eq(parse("a|b"), 0);
    ck_assert_int_eq(opts_positionals(&o, 1, 2, "MODEL", &e), 0);
    ck_assert_int_eq(opts_positionals(&o, 1, 1, "MODEL", &e), -1);
    ck_assert_str_eq(e.msg, "unexpected argument 'b' after MODEL");
    ck_assert_int_eq(opts_positionals(&o, 3, 9, "THIRD", &e), -1);
    ck_assert_str_eq(e.msg, "THIRD is missing, see --help");
    ck_assert_int_eq(opts_positionals(&o, 0, 0, "", &e), -1);
    opts_release(&o);
}
END_TEST

START_TEST(help_is_seen_before_mistakes)
{
    char *const argv[] = {"--nonsense", "-h"}, *const after[] = {"--", "-h"};

    ck_assert(opts_wants_help(2, argv));
    ck_assert(!opts_wants_help(2, after));
}
END_TEST

static int apply(const char *text)
{
    struct json j;
    struct json_at top;
    int rc;

    ck_assert_int_eq(json_parse(&j, "job.json", text, strlen(text), &e), 0);
    top = json_top(&j);
    rc = opts_apply_json(&o, &top, &e);
    json_release(&j);
    return rc;
}

START_TEST(a_job_file_fills_what_the_command_line_left_open)
{
    ck_assert_int_eq(parse("--seq-len|1k"), 0);
    ck_assert_msg(apply("{\"seq_len\":2048,\"optimizer\":\"adamw\",\"master_weights\":false,"
                        "\"nodes\":[1,2],\"bucket\":\"1MiB\",\"price\":1.25,\"check\":true,"
                        "\"objective\":\"soap\"}") == 0,
                  "%s", e.msg);
    ck_assert_uint_eq(opts_get(&o, "seq-len")->u64, 1000);
    ck_assert_str_eq(opts_get(&o, "optimizer")->text, "adamw");
    ck_assert_int_eq(opts_get(&o, "optimizer")->set, OPT_FROM_JSON);
    ck_assert_str_eq(opts_get(&o, "master-weights")->text, "no");
    ck_assert_uint_eq(opts_get(&o, "nodes")->u64s[1], 2);
    ck_assert_uint_eq(opts_get(&o, "bucket")->u64, 1 << 20);
    ck_assert(opts_get(&o, "price")->d == 1.25);
    ck_assert_uint_eq(opts_get(&o, "check")->u64, 1);
    ck_assert_int_eq(opts_get(&o, "bw")->set, OPT_UNSET);
    opts_release(&o);
}
END_TEST

START_TEST(wrong_job_files_are_refused)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"{\"seqlen\":1}",
         "'job.json': the document has the unknown key 'seqlen' (did you mean 'seq_len'?)"},
        {"{\"output\":\"x\"}", "'job.json': the document has the unknown key 'output'"},
        {"{\"seq_len\":0}", "'job.json': seq_len: '0' is out of range, expected 1 to 1048576"},
        {"{\"seq_len\":{}}", "'job.json': seq_len is not a text or number"},
        {"{\"nodes\":[1,[]]}", "'job.json': nodes[1] is not a text or number"},
        {"{\"nodes\":[]}", "'job.json': nodes is an empty list"},
        {"{\"check\":1}", "'job.json': check is not true or false"},
        {"{\"bw\":null}",
         "'job.json': the document has null for 'bw', expected a value or no such key"},
        {"[]", "'job.json': the document is an array, expected an object"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start();
        ck_assert_msg(apply(rows[i].text) == -1, "accepted: %s", rows[i].text);
        ck_assert_str_eq(e.msg, rows[i].expected);
        ck_assert_int_ne(e.code, ERR_USAGE);
        opts_release(&o);
    }
}
END_TEST

START_TEST(values_go_out_as_json_and_come_back)
{
    struct opts first;
    cJSON *out = json_new_object();
    char *text;

    ck_assert_int_eq(parse("--nodes|1,2|--objective|soap|--price|0.1|-c"), 0);
    opts_to_json(&o, false, out);
    text = json_text(out, false);
    ck_assert_str_eq(text,
                     "{\"nodes\":[1,2],\"price\":0.1,\"objective\":[\"soap\"],\"check\":true}");
    first = o;
    start();
    ck_assert_int_eq(apply(text), 0);
    ck_assert_uint_eq(opts_get(&o, "nodes")->u64s[1], 2);
    ck_assert_int_eq(opts_set(&o, "seq-len", "12", OPT_FROM_JSON, &e), 0);
    ck_assert_uint_eq(opts_get(&o, "seq-len")->u64, 12);
    ck_assert_int_eq(opts_set(&o, "seq-len", "x", OPT_FROM_JSON, &e), -1);
    opts_release(&o);
    opts_release(&first);
    mem_free(text);
    json_free(out);
}
END_TEST

START_TEST(help_fits_100_columns_and_shows_defaults)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    start();
    opts_help(f, &o);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "Job options:\n      --seq-len N"));
    ck_assert_ptr_nonnull(strstr(text, "tokens [default: 4096]"));
    ck_assert_ptr_nonnull(strstr(text, "muon, soap, adamw [default: muon]"));
    ck_assert_ptr_nonnull(strstr(text, "[default: the cluster's]"));
    ck_assert_ptr_nonnull(strstr(text, "  -o, --output FILE\n"));
    for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] != 0)) {
        ck_assert_uint_le(strcspn(p, "\n"), 100);
        ck_assert(strcspn(p, "\n") == 0 || p[strcspn(p, "\n") - 1] != ' ');
    }
    free(text);
    opts_release(&o);
}
END_TEST

/* Of every type: the same value typed in two ways is one text, another value another. */
START_TEST(values_are_shown_as_one_text_however_they_were_typed)
{
    static const char *const names[] = {"a", "b", NULL};
    static const struct opt rows[] = {
        {.name = "flag", .type = OPT_FLAG},
        {.name = "string", .type = OPT_STRING},
        {.name = "u64", .type = OPT_U64, .dflt = "1"},
        {.name = "count", .type = OPT_COUNT, .dflt = "1k"},
        {.name = "bytes", .type = OPT_BYTES, .dflt = "1KiB"},
        {.name = "double", .type = OPT_DOUBLE, .dflt = "0.25"},
        {.name = "bandwidth", .type = OPT_BANDWIDTH, .dflt = "8Gb/s"},
        {.name = "time", .type = OPT_TIME, .dflt = "1ms"},
        {.name = "choice", .type = OPT_CHOICE, .choices = names},
        {.name = "list", .type = OPT_LIST},
        {.name = "counts", .type = OPT_COUNTS},
        {.name = "file", .type = OPT_STRING, .own = true},
    };
    static const char *const typed[][3] = {
        {"--flag", "--flag", NULL},
        {"--string=x", "--string=x", "--string=y"},
        {"--u64=7", "--u64=007", "--u64=8"},
        {"--count=2k", "--count=2000", "--count=2Ki"},
        {"--bytes=2KiB", "--bytes=2048", "--bytes=2000"},
        {"--double=0.02", "--double=2e-2", "--double=0.0200000001"},
        {"--bandwidth=16Gb/s", "--bandwidth=2GB/s", "--bandwidth=2.5GB/s"},
        {"--time=2ms", "--time=2000us", "--time=2us"},
        {"--choice=a", "--choice=a", "--choice=b"},
        {"--list=a,b", "--list=a,b", "--list=a"},
        {"--counts=1,2k", "--counts=1,2000", "--counts=1"},
        {"--file=x", "--file=y", NULL},
    };
    enum { N = sizeof(rows) / sizeof(rows[0]) };

    ck_assert_int_eq(OPT_COUNTS, 10); /* a new type has a row above */
    for (size_t i = 0; i < N; i++) {
        char *text[4];

        for (int k = 0; k < 4; k++) { /* two spellings, another value, none */
            char arg[64];
            char *argv[1] = {arg};
            struct strbuf b;

            snprintf(arg, sizeof(arg), "%s", k < 3 && typed[i][k] ? typed[i][k] : "");
            opts_init(&o);
            opts_add(&o, NULL, rows, N);
            ck_assert_int_eq(opts_parse(&o, *arg ? 1 : 0, argv, &e), 0);
            strbuf_init(&b);
            opts_show(&o, i, &b);
            text[k] = strbuf_detach(&b);
            opts_release(&o);
        }
        MUST(!strcmp(text[0], text[1]), "%s: '%s' and '%s'", rows[i].name, text[0], text[1]);
        MUST(strcmp(text[0], text[2]), "%s: '%s' twice", rows[i].name, text[0]);
        MUST(strcmp(text[0], text[3]), "%s: '%s' when it is not given", rows[i].name, text[0]);
        for (int k = 0; k < 4; k++)
            mem_free(text[k]);
    }
}
END_TEST

SUITE_MAIN("core/opts", values_are_shown_as_one_text_however_they_were_typed,
           defaults_are_parsed_values, all_spellings_are_understood,
           wrong_command_lines_are_refused_in_one_line, positionals_are_counted,
           help_is_seen_before_mistakes, a_job_file_fills_what_the_command_line_left_open,
           wrong_job_files_are_refused, values_go_out_as_json_and_come_back,
           help_fits_100_columns_and_shows_defaults)
