#include "sim/keyheap.h"
#include "sim/queue.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

START_TEST(pop_of_empty_queue_is_false)
{
    struct queue q;
    struct queue_event ev;

    queue_init(&q);
    ck_assert(!queue_pop(&q, &ev));
    ck_assert(queue_next_ps(&q) == INT64_MAX);
    queue_release(&q);
}
END_TEST

START_TEST(events_come_out_by_time)
{
    static const int64_t t[] = {50, 10, 40, 20, 30};
    struct queue q;
    struct queue_event ev;
    int64_t want;
    size_t i;

    queue_init(&q);
    for (i = 0; i < 5; i++)
        queue_push(&q, t[i], 0, (uint32_t)i);
    for (want = 10; want <= 50; want += 10) {
        ck_assert(queue_next_ps(&q) == want);
        ck_assert(queue_pop(&q, &ev));
        ck_assert(ev.t_ps == want && t[ev.arg] == want);
        ck_assert(q.now_ps == want);
    }
    ck_assert(!queue_pop(&q, &ev));
    queue_release(&q);
}
END_TEST

START_TEST(events_of_one_instant_come_out_in_the_order_of_their_pushes)
{
    struct queue q;
    struct queue_event ev;
    uint32_t i;

    queue_init(&q);
    for (i = 0; i < 1000; i++)
        queue_push(&q, (int64_t)(i % 3), i % 3, i);
    for (i = 0; i < 1000; i++) {
        ck_assert(queue_pop(&q, &ev));
        ck_assert_uint_eq(ev.kind, ev.arg % 3);
        ck_assert_uint_eq(ev.arg, ev.kind + 3 * (i - (ev.kind ? (ev.kind > 1 ? 667 : 334) : 0)));
    }
    queue_release(&q);
}
END_TEST

START_TEST(random_pushes_and_pops_are_sorted)
{
    struct queue q;
    struct queue_event ev, last = {0};
    uint32_t i, x = 7;

    queue_init(&q);
    for (i = 0; i < 100000; i++) {
        x = x * 1664525U + 1013904223U;
        if (x >> 31 || !q.len) {
            queue_push(&q, q.now_ps + (int64_t)(x >> 8) % 100, 0, i);
            continue;
        }
        ck_assert(queue_pop(&q, &ev));
        ck_assert(ev.t_ps > last.t_ps || (ev.t_ps == last.t_ps && (ev.seq > last.seq || i < 2)));
        last = ev;
    }
    queue_release(&q);
}
END_TEST

START_TEST(an_event_in_the_past_is_a_bug)
{
    struct queue q;
    struct queue_event ev;

    queue_init(&q);
    queue_push(&q, 10, 0, 0);
    queue_pop(&q, &ev);
    queue_push(&q, 9, 0, 0);
}
END_TEST

START_TEST(keyheap_top_agrees_with_a_scan)
{
    enum { N = 64 };
    int64_t key[N];
    struct keyheap h;
    uint32_t i, j, id, best, x = 3;

    keyheap_init(&h);
    for (j = 0; j < N; j++)
        key[j] = -1;
    for (i = 0; i < 5000; i++) {
        x = x * 1664525U + 1013904223U;
        id = (x >> 8) % N;
        if ((x >> 20) % 4 == 3) { /* up to 16 at once */
            for (j = id; j < N && j < id + 16; j++) {
                key[j] = (x >> 24) % 50 + (j * 7) % 13;
                keyheap_put(&h, j, key[j]);
            }
            keyheap_order(&h);
        } else if ((x >> 20) % 4) {
            key[id] = (x >> 24) % 50;
            keyheap_set(&h, id, key[id]);
        } else {
            key[id] = -1;
            keyheap_remove(&h, id);
        }
        for (best = N, j = 0; j < N; j++) {
            ck_assert(keyheap_has(&h, j) == (key[j] >= 0));
            if (key[j] >= 0 && (best == N || key[j] < key[best]))
                best = j;
        }
        ck_assert((best == N) == (h.len == 0));
        if (best < N)
            ck_assert(h.items[0].key == key[best] && key[h.items[0].id] == key[best]);
    }
    keyheap_clear(&h);
    for (j = 0; j < N; j++)
        ck_assert(!keyheap_has(&h, j));
    keyheap_release(&h);
}
END_TEST

START_TEST(doubles_order_like_their_keys)
{
    static const double x[] = {0, 1e-300, 1e-9, 0.5, 1, 1.0000000000000002, 3, 1e300};
    size_t i;

    for (i = 1; i < sizeof(x) / sizeof(x[0]); i++) {
        ck_assert(keyheap_of_double(x[i - 1]) < keyheap_of_double(x[i]));
        ck_assert(keyheap_to_double(keyheap_of_double(x[i])) == x[i]);
    }
}
END_TEST

/* the test of a bug ends by SIGABRT, so the list is built by hand */
int main(void)
{
    Suite *s = suite_create("sim/queue");
    TCase *c = tcase_create("queue");
    SRunner *r;
    int failed;

    tcase_add_test(c, pop_of_empty_queue_is_false);
    tcase_add_test(c, events_come_out_by_time);
    tcase_add_test(c, events_of_one_instant_come_out_in_the_order_of_their_pushes);
    tcase_add_test(c, random_pushes_and_pops_are_sorted);
    tcase_add_test_raise_signal(c, an_event_in_the_past_is_a_bug, SIGABRT);
    tcase_add_test(c, keyheap_top_agrees_with_a_scan);
    tcase_add_test(c, doubles_order_like_their_keys);
    suite_add_tcase(s, c);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
