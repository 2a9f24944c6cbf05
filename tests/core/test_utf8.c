#include "core/utf8.h"

#include "tests/suite.h"

#include <string.h>

/* RFC 3629: shortest and longest of each length; what is one too much, overlong, a surrogate, or cut short. */
START_TEST(well_formed_sequences_have_their_length)
{
    ck_assert_uint_eq(utf8_step("a", 1), 1);
    ck_assert_uint_eq(utf8_step("\xc2\x80", 2), 2);
    ck_assert_uint_eq(utf8_step("\xe0\xa0\x80", 3), 3);
    ck_assert_uint_eq(utf8_step("\xf4\x8f\xbf\xbf", 4), 4);
}
END_TEST

START_TEST(what_is_no_utf8_has_none)
{
    static const char *const bad[] = {
        "\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x80\x80\x80",
        "\xc2", "\xff"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_uint_eq(utf8_step(bad[i], strlen(bad[i])), 0);
    ck_assert_uint_eq(utf8_valid("ab\xff"
                                 "c",
                                 4),
                      2);
}
END_TEST

/* Eight bytes at a time where they are ASCII: a stray byte is found at any place, and two-byte letters across the steps. */
START_TEST(a_stray_byte_is_found_anywhere)
{
    char text[40];

    for (size_t n = 0; n < sizeof(text); n++)
        for (size_t at = 0; at < n; at++) {
            memset(text, 'a', sizeof(text));
            text[at] = '\xff';
            ck_assert_uint_eq(utf8_valid(text, n), at);
            text[at] = '\xc3';
            ck_assert_uint_eq(utf8_valid(text, n), at); /* without its second byte */
            if (at + 1 == n)
                continue;
            text[at + 1] = '\xb6';
            ck_assert_uint_eq(utf8_valid(text, n), n);
        }
}
END_TEST

START_TEST(clean_names_have_no_controls_and_no_stray_bytes)
{
    struct arena a;

    arena_init(&a);
    ck_assert_str_eq(utf8_clean(&a, "m\xc3\xb6"
                                    "del\x1b[31m\xff"),
                     "m\xc3\xb6"
                     "del?[31m?");
    arena_release(&a);
}
END_TEST

SUITE_MAIN("core/utf8", well_formed_sequences_have_their_length, what_is_no_utf8_has_none,
           a_stray_byte_is_found_anywhere, clean_names_have_no_controls_and_no_stray_bytes)
