#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/strbuf.h"
#include "core/version.h"
#include "tests/suite.h"

#include <string.h>

START_TEST(arena_memory_is_zeroed_aligned_and_apart)
{
    struct arena a;
    unsigned char *last = NULL;
    size_t dirty = 0;

    arena_init(&a);
    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *p = arena_alloc(&a, n, 3);

        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < 3 * n; i++)
            dirty += p[i] != 0; /* an assertion a byte would take a minute */
        memset(p, 0xff, 3 * n);
        ck_assert(p != last || n == 7);
        last = p;
    }
    ck_assert_uint_eq(dirty, 0);
    ck_assert_str_eq(arena_printf(&a, "%s-%d", "x", 5), "x-5");
    ck_assert_str_eq(arena_strndup(&a, "hello", 2), "he");
    arena_release(&a);
    ck_assert_uint_eq(a.n_bytes, 0);
}
END_TEST

START_TEST(a_big_block_does_not_waste_the_head)
{
    struct arena a;
    char *small, *next;

    arena_init(&a);
    small = arena_alloc(&a, 16, 1);
    arena_alloc(&a, 1 << 20, 1);
    next = arena_alloc(&a, 16, 1);
    ck_assert_ptr_eq(next, small + 16);
    arena_release(&a);
}
END_TEST

START_TEST(impossible_sizes_end_the_program_with_status_4)
{
    mem_alloc(SIZE_MAX / 2, 4);
}
END_TEST

START_TEST(checked_arithmetic_refuses_2_to_the_63)
{
    uint64_t v;

    ck_assert(num_mul(UINT64_C(1) << 31, UINT64_C(1) << 31, &v));
    ck_assert(!num_mul(UINT64_C(1) << 32, UINT64_C(1) << 31, &v));
    ck_assert_uint_eq(v, NUM_MAX);
    ck_assert(!num_mul(UINT64_MAX, UINT64_MAX, &v));
    ck_assert(num_add(NUM_MAX - 1, 1, &v));
    ck_assert(!num_add(NUM_MAX, 1, &v));
    ck_assert_uint_eq(num_ceil_div(7, 2), 4);
    ck_assert_uint_eq(num_ceil_div(UINT64_MAX, 1), UINT64_MAX);
}
END_TEST

START_TEST(parts_cover_everything_once)
{
    for (uint64_t parts = 1; parts < 9; parts++) {
        ck_assert_uint_eq(num_part(23, parts, 0), 0);
        ck_assert_uint_eq(num_part(23, parts, parts), 23);
        for (uint64_t i = 0; i < parts; i++) {
            uint64_t n = num_part(23, parts, i + 1) - num_part(23, parts, i);

            ck_assert(n == 23 / parts || n == 23 / parts + 1);
        }
    }
}
END_TEST

START_TEST(a_message_is_one_line_however_it_grows)
{
    struct err e;

    ck_assert_int_eq(err_set(&e, ERR_INVALID, "a\nb\x1b[31m %d", 5), -1);
    ck_assert_str_eq(e.msg, "a?b?[31m 5");
    ck_assert_int_eq(err_prefix(&e, "links[%d]", 3), -1);
    ck_assert_str_eq(e.msg, "links[3]: a?b?[31m 5");
    for (int i = 0; i < 300; i++)
        err_prefix(&e, "prefix %d", i);
    ck_assert_uint_lt(strlen(e.msg), sizeof(e.msg));
    ck_assert_int_eq(e.code, ERR_INVALID);
    ck_assert_str_eq(err_name(ERR_USAGE), "USAGE");
    ck_assert_int_eq(err_exit_status(ERR_USAGE), 2);
    ck_assert_int_eq(err_exit_status(ERR_NO), 1);
}
END_TEST

START_TEST(strbuf_grows_and_hands_over)
{
    struct strbuf b;
    char *s;

    strbuf_init(&b);
    ck_assert_str_eq(b.s, "");
    for (int i = 0; i < 1000; i++)
        strbuf_printf(&b, "%d,", i);
    ck_assert_uint_eq(b.len, strlen(b.s));
    ck_assert_uint_eq(b.len, 3890);
    strbuf_clear(&b);
    strbuf_pad(&b, '-', 3);
    strbuf_add(&b, "a\0b", 3);
    strbuf_putc(&b, 'c');
    ck_assert_uint_eq(b.len, 7);
    ck_assert_mem_eq(b.s, "---a\0bc", 8);
    s = strbuf_detach(&b);
    strbuf_clear(&b);
    strbuf_puts(&b, "again");
    ck_assert_str_eq(b.s, "again");
    strbuf_release(&b);
    mem_free(s);
}
END_TEST

START_TEST(the_version_is_the_one_of_the_file)
{
    char line[64] = "";
    FILE *f = fopen("VERSION", "r");

    if (!f)
        return; /* run from elsewhere */
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    fclose(f);
    line[strcspn(line, "\n")] = 0;
    ck_assert_str_eq(ballast_version, line);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("core/mem");
    TCase *tc = tcase_create("core/mem");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_test(tc, arena_memory_is_zeroed_aligned_and_apart);
    tcase_add_test(tc, a_big_block_does_not_waste_the_head);
    tcase_add_exit_test(tc, impossible_sizes_end_the_program_with_status_4, 4);
    tcase_add_test(tc, checked_arithmetic_refuses_2_to_the_63);
    tcase_add_test(tc, parts_cover_everything_once);
    tcase_add_test(tc, a_message_is_one_line_however_it_grows);
    tcase_add_test(tc, strbuf_grows_and_hands_over);
    tcase_add_test(tc, the_version_is_the_one_of_the_file);
    suite_add_tcase(s, tc);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
