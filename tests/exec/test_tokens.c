/* Token files: bytes written by hand, and runs that read them. */
#include "exec/run.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <stdio.h>
#include <unistd.h>

static char path[300];
static struct token_file f;
static struct err err;

static void put(const void *bytes, size_t n)
{
    FILE *out;

    snprintf(path, sizeof(path), "%s/ballast-tokens.%d.bin",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    out = fopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, n, out), n);
    fclose(out);
}

static void refused(const void *bytes, size_t n, unsigned width, uint64_t vocab, const char *says)
{
    put(bytes, n);
    ck_assert(token_file_open(&f, path, width, 3, &err) || token_file_check(&f, vocab, 9, &err));
    ck_assert_msg(strstr(err.msg, says) && strstr(err.msg, path), "%s", err.msg);
    token_file_close(&f);
    unlink(path);
}

/* Two sequences of 3 + 1 ids and one id that is in none. 0x0102 is 258, low byte first. */
START_TEST(sequences_follow_one_another_and_wrap)
{
    static const unsigned char bytes[] = {1, 0, 2, 0, 2, 1, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 99, 99};
    static const int64_t want[2][4] = {{1, 2, 258, 4}, {5, 6, 7, 8}};
    int64_t in[3], out[3];

    put(bytes, sizeof(bytes));
    ck_assert_int_eq(token_file_open(&f, path, 2, 3, &err), 0);
    ck_assert_uint_eq(f.n_tokens, 9);
    ck_assert_uint_eq(f.n_sequences, 2);
    for (uint64_t q = 0; q < 5; q++) {
        token_file_read(&f, q, in, out);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(in[i], want[q % 2][i]);
            ck_assert_int_eq(out[i], want[q % 2][i + 1]);
        }
    }
    ck_assert_int_eq(token_file_check(&f, 259, 9, &err), 0); /* the last id is never read */
    ck_assert_int_eq(token_file_check(&f, 5, 1, &err), -1);
    token_file_close(&f);
    unlink(path);
}
END_TEST

START_TEST(wide_ids_have_four_bytes)
{
    static const unsigned char bytes[] = {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 255, 255, 255, 255};
    int64_t in[3], out[3];

    put(bytes, sizeof(bytes));
    ck_assert_int_eq(token_file_open(&f, path, 4, 3, &err), 0);
    token_file_read(&f, 0, in, out);
    ck_assert_int_eq(in[0], 1);
    ck_assert_int_eq(in[1], 1 << 24);
    ck_assert_int_eq(in[2], 1 << 16);
    ck_assert_int_eq(out[2], INT64_C(0xffffffff));
    token_file_close(&f);
    unlink(path);
}
END_TEST

START_TEST(what_is_no_token_file_is_refused)
{
    static const unsigned char bytes[] = {1, 0, 2, 0, 3, 0, 64, 0, 5, 0, 0};

    refused(bytes, 11, 2, 65, "has 11 bytes, expected a multiple of 2");
    refused(bytes, 10, 4, 65, "has 10 bytes, expected a multiple of 4");
    refused(bytes, 6, 2, 65, "has 3 tokens, expected at least 4");
    refused(bytes, 0, 2, 65, "has 0 tokens, expected at least 4");
    refused(bytes, 10, 2, 64, "token 3 (at byte 6) is 64, expected less than the vocabulary's 64");
    ck_assert_int_eq(token_file_open(&f, "nowhere.bin", 2, 3, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "nowhere.bin"));
    ck_assert_int_eq(token_file_open(&f, ".", 2, 3, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "is a folder"));
}
END_TEST

/* ---- the same global batch on 1, 2 and 4 ranks ---- */

enum { SEQ = 16, BATCH = 4, VOCAB = 60 };
struct trial {
    struct plan plan;
    struct program p;
    double loss;          /* of the first step: before any update */
    bool seen[2 * BATCH]; /* sequence q of two steps */
    pthread_mutex_t lock;
};

static int one_rank(struct transport *t, void *ctx, struct err *e)
{
    struct trial *x = ctx;
    struct run_options o = {.seed = 7, .ordered = true, .lr = 0.02, .tokens = &f};
    struct backend b;
    struct exec_run r;
    int status;

    open_cpu(&b, t, 0);
    status = exec_init(&r, &x->plan, &x->p, &b, &o, e);

    for (int s = 0; s < 2 && !status; s++) {
        double loss;

        status = exec_step(&r, e) || exec_loss(&r, &loss, e);
        if (t->rank == 0 && s == 0)
            x->loss = loss;
        for (uint32_t m = 0; m < x->p.n_micro; m++) {
            int64_t in[BATCH * SEQ], out[BATCH * SEQ];

            data_batch(&r, m, in, out);
            pthread_mutex_lock(&x->lock);
            for (uint64_t k = 0; k < x->plan.job.micro_batch; k++) {
                int64_t q = in[k * SEQ]; /* the file has q as the first token of sequence q */

                ck_assert(q / BATCH == s && !x->seen[q]);
                x->seen[q] = true;
            }
            pthread_mutex_unlock(&x->lock);
        }
    }
    exec_release(&r);
    backend_close(&b);
    return status;
}

START_TEST(a_global_batch_is_the_same_sequences_on_any_ranks)
{
    static const struct {
        uint32_t world, accum, micro;
        const char *layout;
    } shares[] = {{1, 4, 1, "ddp"},
                  {1, 1, 4, "ddp"},
                  {2, 2, 1, "zero3+owner"},
                  {4, 1, 1, "zero1+owner"},
                  {2, 1, 2, "zero3+gather"}};
    unsigned char bytes[2 * BATCH * (SEQ + 1) * 2];
    double first = 0;

    for (size_t i = 0; i < sizeof(bytes) / 2; i++) {
        uint64_t at = i % (SEQ + 1);

        bytes[2 * i] = (unsigned char)(at ? (i * i + 3 * at) % VOCAB : i / (SEQ + 1));
        bytes[2 * i + 1] = 0;
    }
    put(bytes, sizeof(bytes));
    ck_assert_int_eq(token_file_open(&f, path, 2, SEQ, &err), 0);
    for (size_t k = 0; k < sizeof(shares) / sizeof(shares[0]); k++) {
        struct trial x = {.lock = PTHREAD_MUTEX_INITIALIZER};
        struct job j = plans_job();
        struct arena a;

        j.seq_len = SEQ;
        j.param_dtype = j.grad_dtype = DTYPE_FP32;
        j.micro_batch = shares[k].micro;
        j.grad_accum = shares[k].accum;
        arena_init(&a);
        plans_make(&x.plan, &a, "llama", shares[k].layout, &j, shares[k].world, 4);
        ck_assert_uint_le(VOCAB, x.plan.model.vocab);
        ck_assert_int_eq(layout_lower(&x.plan, &a, &x.p, &err), 0);
        if (threads_run(shares[k].world, one_rank, &x, &err))
            ck_abort_msg("%s", err.msg);
        for (int q = 0; q < 2 * BATCH; q++)
            ck_assert(x.seen[q]);
        if (k == 0)
            first = x.loss;
        ck_assert_double_eq_tol(x.loss, first, 1e-6 * first); /* sums in another order */
        arena_release(&a);
    }
    token_file_close(&f);
    unlink(path);
}
END_TEST

SUITE_MAIN("exec/tokens", sequences_follow_one_another_and_wrap, wide_ids_have_four_bytes,
           what_is_no_token_file_is_refused, a_global_batch_is_the_same_sequences_on_any_ranks)
