#include "core/units.h"
#include "tests/suite.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef int (*parse_u64)(const char *, uint64_t *, struct err *);
typedef int (*parse_real)(const char *, double *, struct err *);

struct good_u64 {
    const char *text;
    uint64_t value;
};

static void accept_all(parse_u64 parse, const struct good_u64 *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};
        uint64_t v = 0;

        ck_assert_msg(parse(rows[i].text, &v, &e) == 0, "'%s': %s", rows[i].text, e.msg);
        ck_assert_msg(v == rows[i].value, "'%s' is %" PRIu64, rows[i].text, v);
    }
}

/* Every refusal is one line that quotes the input and says what was expected. */
static void expect_refusal(const char *text, int rc, const struct err *e, const char *expected)
{
    ck_assert_msg(rc == -1, "'%s' was accepted", text);
    ck_assert_int_eq(e->code, ERR_INVALID);
    ck_assert_msg(strstr(e->msg, expected) != NULL, "'%s': %s", text, e->msg);
    ck_assert_msg(strstr(e->msg, text) != NULL || strlen(text) > 60, "%s", e->msg);
    ck_assert_ptr_null(strchr(e->msg, '\n'));
}

START_TEST(sizes_take_decimal_and_binary_units)
{
    static const struct good_u64 rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"1kB", 1000},
        {"1KB", 1000},
        {"1KiB", 1024},
        {"1kiB", 1024},
        {"64MiB", 67108864},
        {"64 MiB", 67108864},
        {"1.5GB", 1500000000},
        {"1.5GiB", 1610612736},
        {"8G", UINT64_C(8589934592)}, /* as in nccl-tests -e 8G */
        {"2Ti", UINT64_C(2199023255552)},
        {"1e3", 1000},
        {"1.5e3B", 1500},
        {".5KiB", 512},
        {"1.KiB", 1024},
        {"1E", UINT64_C(1152921504606846976)},
        {"1E3", 1000},
        {"0.000001MB", 1},
        {"9223372036854775807", INT64_MAX},
        {"7.999999999999999999EB", UINT64_C(7999999999999999999)},
        {"0000000000000000000000000000000000000012", 12},
        {"12.0000000000000000000000000000000000000", 12},
        {"0e99999", 0},
    };

    accept_all(units_bytes, rows, sizeof(rows) / sizeof(rows[0]));
}
END_TEST

START_TEST(counts_take_letters_as_decimal)
{
    static const struct good_u64 rows[] = {
        {"12", 12}, {"1k", 1000}, {"1K", 1000}, {"4Mi", 4194304}, {"2e6", 2000000}, {"1.5k", 1500},
    };

    accept_all(units_count, rows, sizeof(rows) / sizeof(rows[0]));
}
END_TEST

START_TEST(bad_sizes_are_refused_with_what_was_expected)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"", "expected bytes like 4096"},
        {" ", "expected bytes"},
        {"x", "expected bytes"},
        {"MiB", "expected bytes"},
        {".", "expected bytes"},
        {"-1", "not negative"},
        {"-0", "not negative"},
        {"+1", "expected bytes"},
        {"nan", "expected bytes"},
        {"inf", "expected bytes"},
        {"0x10", "expected bytes"},
        {"1.5", "whole number of bytes"},
        {"0.3KiB", "whole number of bytes"},
        {"1e-1", "whole number of bytes"},
        {"64Mb", "b means bits"},
        {"64mib", "expected bytes"},
        {"64MiBs", "expected bytes"},
        {"64 ", "expected bytes"},
        {"1e", "expected bytes"},
        {"1e+", "expected bytes"},
        {"1.2.3", "expected bytes"},
        {"1,000", "expected bytes"},
        {"9223372036854775808", "below 2^63"},
        {"18446744073709551616", "below 2^63"},
        {"8EiB", "below 2^63"},
        {"1e400", "below 2^63"},
        {"99999999999999999999999999999999999999999999999999", "below 2^63"},
        {"1.00000000000000000001", "whole number of bytes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err e = {0};
        uint64_t v;

        expect_refusal(rows[i].text, units_bytes(rows[i].text, &v, &e), &e, rows[i].expected);
    }
}
END_TEST

START_TEST(bad_counts_and_integers_are_refused)
{
    static const char *const counts[] = {"1.5", "1B", "1kB", "-3", "1k2", "", "9E400", "10Ei"};
    static const char *const integers[] = {"1k", "1.0", "1e3", "-3",
                                           "",   " 1",  "1 ",  "9223372036854775808"};
    struct err e = {0};
    uint64_t v;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        expect_refusal(counts[i], units_count(counts[i], &v, &e), &e, "is not a count");
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
        expect_refusal(integers[i], units_integer(integers[i], &v, &e), &e,
                       "is not a whole number");
    ck_assert_int_eq(units_integer("9223372036854775807", &v, &e), 0);
    ck_assert_uint_eq(v, INT64_MAX);
}
END_TEST

START_TEST(bandwidth_tells_bits_from_bytes)
{
    static const struct {
        const char *text;
        double Bps;
    } rows[] = {
        {"200Gb/s", 25e9},
        {"200Gbps", 25e9},
        {"200 Gbit/s", 25e9},
        {"200Gb", 25e9},
        {"25GB/s", 25e9},
        {"25GBps", 25e9},
        {"25e9", 25e9},
        {"1MiB/s", 1048576},
        {"8b/s", 1},
        {"0.5TB/s", 0.5e12},
        {"0", 0},
    };
    static const char *const bad[] = {"200G",  "200Gx/s",   "-1GB/s", "GB/s",    "nan", "inf",
                                      "1e400", "1e308GB/s", "25GB/m", "25GB/s ", "",    "0x1p3"};
    struct err e = {0};
    double v;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(units_bandwidth(rows[i].text, &v, &e) == 0, "%s", e.msg);
        ck_assert_msg(v == rows[i].Bps, "'%s' is %g", rows[i].text, v);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refusal(bad[i], units_bandwidth(bad[i], &v, &e), &e, "is not a bandwidth");
}
END_TEST

START_TEST(times_are_the_nearest_double)
{
    static const struct {
        const char *text;
        double s;
    } rows[] = {
        {"5us", 5e-6},   {"5 us", 5e-6}, {"1.5ms", 1.5e-3}, {"3", 3},       {"3s", 3},
        {"700ns", 7e-7}, {"2min", 120},  {"1h", 3600},      {"9ps", 9e-12}, {"5\u00b5s", 5e-6},
    };
    static const char *const bad[] = {"5m", "5 ", "us", "-5us", "5usec", "inf", "1e309s", ""};
    struct err e = {0};
    double v;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(units_time(rows[i].text, &v, &e) == 0, "%s", e.msg);
        ck_assert_msg(v == rows[i].s, "'%s' is %g", rows[i].text, v);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refusal(bad[i], units_time(bad[i], &v, &e), &e, "is not a time");
}
END_TEST

START_TEST(numbers_are_plain)
{
    static const char *const bad[] = {"", "x", "1x", "-1", "nan", "NaN", "infinity", "1e999", "1 "};
    struct err e = {0};
    double v;

    ck_assert_int_eq(units_number("0.25", &v, &e), 0);
    ck_assert(v == 0.25);
    ck_assert_int_eq(units_parse(UNITS_NUMBER, "1e-3", &v, &e), 0);
    ck_assert(v == 1e-3);
    ck_assert_int_eq(units_parse(UNITS_BYTES, "1KiB", &v, &e), 0);
    ck_assert(v == 1024);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refusal(bad[i], units_number(bad[i], &v, &e), &e, "is not a number");
}
END_TEST

START_TEST(rates_of_arithmetic_are_decimal)
{
    static const char *const bad[] = {"",         "FLOP/s",      "1TFLOP", "1TiFLOP/s",
                                      "-1TFLOPS", "1TFLOP/s x",  "1T",     "1GB/s",
                                      "1 ",       "1e300TFLOPS", "0x1"};
    struct err e = {0};
    double v;

    ck_assert_int_eq(units_flops("312TFLOP/s", &v, &e), 0);
    ck_assert(v == 312e12);
    ck_assert_int_eq(units_flops("1.5 PFLOPS", &v, &e), 0);
    ck_assert(v == 1.5e15);
    ck_assert_int_eq(units_parse(UNITS_FLOPS, "3e14", &v, &e), 0);
    ck_assert(v == 3e14);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refusal(bad[i], units_flops(bad[i], &v, &e), &e, "is not a rate of arithmetic");
}
END_TEST

START_TEST(long_input_is_quoted_only_in_part)
{
    char text[2000];
    struct err e = {0};
    uint64_t v;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    ck_assert_int_eq(units_bytes(text, &v, &e), -1);
    ck_assert_uint_lt(strlen(e.msg), 200);
    ck_assert_int_eq(units_bytes("1\nerror: forged", &v, &e), -1);
    ck_assert_ptr_null(strchr(e.msg, '\n'));
}
END_TEST

START_TEST(quantities_are_shown_with_three_digits_and_a_unit)
{
    ck_assert_str_eq(units_show_bytes(0).s, "0 B");
    ck_assert_str_eq(units_show_bytes(1023).s, "1023 B");
    ck_assert_str_eq(units_show_bytes(1025).s, "1.00 KiB");
    ck_assert_str_eq(units_show_bytes(67108864).s, "64 MiB");
    ck_assert_str_eq(units_show_bytes(UINT64_C(1610612736)).s, "1.50 GiB");
    ck_assert_str_eq(units_show_bytes(UINT64_MAX).s, "16.0 EiB");
    ck_assert_str_eq(units_show_gib(UINT64_C(84986058670)).s, "79.15 GiB");
    ck_assert_str_eq(units_show_bandwidth(25e9).s, "25.0 GB/s");
    ck_assert_str_eq(units_show_bandwidth(999.6e6).s, "1.00 GB/s");
    ck_assert_str_eq(units_show_time(0).s, "0 s");
    ck_assert_str_eq(units_show_time(812e-9).s, "812 ns");
    ck_assert_str_eq(units_show_time(5.2e-6).s, "5.20 us");
    ck_assert_str_eq(units_show_time(12.34e-3).s, "12.3 ms");
    ck_assert_str_eq(units_show_time(7200).s, "7200 s");
    ck_assert_str_eq(units_show_count(0).s, "0");
    ck_assert_str_eq(units_show_count(999).s, "999");
    ck_assert_str_eq(units_show_count(1234567).s, "1,234,567");
    ck_assert_str_eq(units_show_count(UINT64_MAX).s, "18,446,744,073,709,551,615");
    ck_assert_str_eq(units_show_flops(1.234e15).s, "1.23 PFLOP");
}
END_TEST

START_TEST(shown_doubles_read_back_the_same)
{
    static const double values[] = {0.1, 1.0 / 3, 1e300, 5e-324, -2.5, 1e15, 123456789012345678.0};
    uint64_t x = 88172645463325252u; /* xorshift64, seed printed by being here */

    ck_assert_str_eq(units_show_double(0.1).s, "0.1");
    ck_assert_str_eq(units_show_double(-0.0).s, "0");
    ck_assert_str_eq(units_show_double(1e15).s, "1e+15");
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        ck_assert(strtod(units_show_double(values[i]).s, NULL) == values[i]);
    for (int i = 0; i < 20000; i++) {
        double d;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(&d, &x, sizeof(d));
        if (isfinite(d))
            ck_assert(strtod(units_show_double(d).s, NULL) == d);
    }
}
END_TEST

SUITE_MAIN("core/units", sizes_take_decimal_and_binary_units, counts_take_letters_as_decimal,
           bad_sizes_are_refused_with_what_was_expected, bad_counts_and_integers_are_refused,
           bandwidth_tells_bits_from_bytes, times_are_the_nearest_double, numbers_are_plain,
           rates_of_arithmetic_are_decimal, long_input_is_quoted_only_in_part,
           quantities_are_shown_with_three_digits_and_a_unit, shown_doubles_read_back_the_same)
