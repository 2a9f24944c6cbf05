/* What is said of how far a command is: on a terminal, and in a log. */
#include "cli/progress.h"
#include "tests/suite.h"

#include <string.h>

static char text[4096];

/* Five pieces that begin at these times, in seconds. */
static const char *said(bool terminal, const double *at_s)
{
    struct progress p;
    FILE *f = tmpfile();
    size_t n;

    ck_assert(f);
    progress_begin_at(&p, "fit", 5, f, terminal, 100);
    for (int i = 0; i < 5; i++)
        progress_next_at(&p, "table", 100 + at_s[i]);
    progress_end(&p);
    rewind(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

START_TEST(nothing_is_said_of_what_is_done_soon)
{
    ck_assert_str_eq(said(true, (double[]){0, 0.1, 0.2, 0.3, 0.4}), "");
    ck_assert_str_eq(said(false, (double[]){0, 0.5, 1, 2, 2.9}), "");
}
END_TEST

/* Two pieces in 4 s: three more take 6. */
START_TEST(a_log_gets_a_line_now_and_then)
{
    ck_assert_str_eq(said(false, (double[]){0, 2, 4, 8, 15}),
                     "fit 3 of 5 after 4 s, about 6 s more: table\n"
                     "fit 5 of 5 after 15 s, about 4 s more: table\n");
}
END_TEST

START_TEST(a_terminal_is_clean_in_the_end)
{
    ck_assert_str_eq(said(true, (double[]){0, 0.1, 0.2, 0.4, 1}),
                     "\r\033[Kfit 5 of 5 after 1 s, about 0 s more: table\r\033[K");
}
END_TEST

SUITE_MAIN("cli/progress", nothing_is_said_of_what_is_done_soon, a_log_gets_a_line_now_and_then,
           a_terminal_is_clean_in_the_end)
