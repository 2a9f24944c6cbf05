/* ballast-exec PLAN: replays a plan's step program on this machine. A program of its own, without GLPK: it lowers the
 * plan, predicts it, runs it on every rank (started by mpirun or srun when there are several), and puts both side by side.
 * `ballast exec` starts it. */
#include "cli/machine.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/exec_check.h"
#include "cli/exec_owners.h"
#include "cli/exec_report.h"
#include "cli/exec_shadow.h"
#include "cli/exec_steps.h"
#include "cli/exec_trace.h"
#include "cli/measured.h"
#include "cli/output.h"
#include "core/file.h"
#include "core/table.h"
#include "core/version.h"
#include "exec/agree.h"
#include "exec/plant.h"
#include "exec/run.h"
#include "layouts/layout.h"
#include "sim/sim.h"

#include <signal.h>
#include <string.h>

static const char *const token_types[] = {"u16", "u32", NULL};

static const struct opt rows[] = {
    {.name = "steps",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "5",
     .min = 1,
     .max = 100000,
     .help = "steps that count"},
    {.name = "warmup",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .max = 1000,
     .help = "steps before them"},
    {.name = "check",
     .type = OPT_FLAG,
     .help = "train under this layout and under ddp, and compare; no timing"},
    {.name = "deterministic",
     .type = OPT_FLAG,
     .help = "reductions add in the order of the ranks (always with --check)"},
    {.name = "seed",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .help = "of parameters and tokens"},
    {.name = "lr",
     .type = OPT_DOUBLE,
     .meta = "X",
     .dflt = "0.02",
     .hi = 100,
     .help = "learning rate of matrices"},
    {.name = "tokens",
     .type = OPT_STRING,
     .meta = "FILE",
     .dflt_note = "made from the seed",
     .help = "train on these token ids: flat, little-endian, unsigned",
     .own = true},
    {.name = "tokens-type",
     .type = OPT_CHOICE,
     .choices = token_types,
     .dflt = "u16",
     .help = "of the ids in --tokens"},
    {.name = "trace",
     .type = OPT_STRING,
     .meta = "FILE",
     .help = "write a Chrome trace of the last step, predicted and measured",
     .own = true},
    {.name = "steps-file",
     .type = OPT_STRING,
     .meta = "FILE",
     .help = "write what was measured as rows for ballast validate",
     .own = true},
    {.name = "shadow",
     .type = OPT_FLAG,
     .help =
         "compare every kernel and product with the CPU's reference while a step runs; no timing"},
    {.name = "owners",
     .type = OPT_FLAG,
     .help = "the optimizer steps of all the plan's ranks, one after another on this one device"},
    {.name = "cluster",
     .letter = 'c',
     .type = OPT_STRING,
     .meta = "CLUSTER",
     .dflt_note = "the plan's",
     .help = "predict for this one (what calibrate wrote); ranks have to lie on nodes as under the "
             "plan's",
     .own = true},
    {.name = "plant",
     .type = OPT_STRING,
     .meta = "FAULT",
     .help = "for tests, a fault on purpose: kill, oom, mpi, stall, skip[:RANK[:PHASE]], or "
             "shift, stale, sum, twice, lose[:RANK]"},
    COMMAND_OUTPUT_ROWS,
};

struct session {
    struct opts opts;
    struct arena arena;
    struct plan plan;
    struct program program;
    struct machine on;
    struct run_options o;
    struct plant plant;
    struct token_file tokens;
    struct strbuf out;
};

static int on_op(void *ctx, const struct exec_run *r, const struct instance *i, struct err *e)
{
    struct session *s = ctx;
    const struct op *o = &r->p->ops[i->op];

    machine_doing(&s->on, "%s: %s of unit %s", phase_name(o->phase), o->name,
                  r->p->model->units[i->unit].name);
    return plant_happen(&s->plant, r, o->phase, e);
}

/* ---- measured against predicted ---- */

static int replay(struct session *s, int argc, char **argv, struct err *e)
{
    uint64_t n = opts_get(&s->opts, "steps")->u64, warm = opts_get(&s->opts, "warmup")->u64;
    struct exec_run r;
    struct measured m;
    int status = measured_init(&m, &s->plan, &s->program, !s->on.b.device.overlaps, e);

    m.seed = s->o.seed;
    if (!status)
        status = exec_init(&r, &s->plan, &s->program, &s->on.b, &s->o, e);
    else
        memset(&r, 0, sizeof(r));
    for (uint64_t i = 0; i < warm + n && !status; i++) {
        status = exec_step(&r, e);
        if (!status)
            status = measured_loss(&m, &r, e);
        if (!status && i >= warm)
            status = measured_step(&m, &r, e);
    }
    if (!status)
        status = measured_end(&m, &r, e);
    if (!status && opts_get(&s->opts, "trace")->set)
        status = exec_trace(opts_get(&s->opts, "trace")->text, &m, &r, e);
    if (!status && opts_get(&s->opts, "steps-file")->set && s->on.t.rank == 0 && !m.endless_step)
        status = exec_steps(opts_get(&s->opts, "steps-file")->text, s->opts.pos[0], &m, &s->on, e);
    if (!status)
        exec_report(&m, &s->on, &s->tokens, (enum table_format)opts_get(&s->opts, "format")->u64,
                    argc, argv, &s->out);
    if (!status && s->on.t.rank == 0 && opts_get(&s->opts, "format")->u64 == TABLE_AS_CSV &&
        machine_note(&s->on, &s->plan.cluster))
        fprintf(stderr, "note: %s\n", machine_note(&s->on, &s->plan.cluster));
    if (!status && m.endless_step) {
        if (s->on.t.rank == 0)
            fprintf(stderr, "error: the loss is not finite from step %llu on, warm-up included%s\n",
                    (unsigned long long)m.endless_step,
                    opts_get(&s->opts, "steps-file")->set ? "; --steps-file is not written" : "");
        status = 1;
    }
    exec_release(&r);
    measured_release(&m);
    return status;
}

/* ---- frame ---- */

/* All that the run will read is looked at before it starts. */
static int open_tokens(struct session *s, struct err *e)
{
    const struct job *j = &s->plan.job;
    const char *path = opts_get(&s->opts, "tokens")->text;
    const struct opt_val *type = opts_get(&s->opts, "tokens-type");
    uint64_t steps = opts_get(&s->opts, "steps")->u64;

    if (!path)
        return type->set ? err_set(e, ERR_USAGE,
                                   "--tokens-type is of the ids in --tokens, which is "
                                   "not given")
                         : 0;
    if (s->plan.model.classes[s->plan.model.units[0].class_id].kind != UNIT_EMBED)
        return err_set(e, ERR_INVALID,
                       "--tokens: '%.200s' has no embedding; expected a model that reads tokens",
                       s->plan.model.name);
    if (!opts_get(&s->opts, "check")->set)
        steps += opts_get(&s->opts, "warmup")->u64;
    if (token_file_open(&s->tokens, path, type->u64 ? 4 : 2, j->seq_len, e) ||
        token_file_check(&s->tokens, s->plan.model.vocab,
                         steps * j->grad_accum * s->plan.world * j->micro_batch, e))
        return err_prefix(e, "--tokens");
    s->o.tokens = &s->tokens;
    return 0;
}

/* Files beside the result: a name each, none of them standard output, and none without times. */
static int check_files(const struct session *s, struct err *e)
{
    static const char *const files[] = {"trace", "steps-file"};
    static const char *const others[] = {"check", "shadow", "owners"};
    static const struct {
        const char *run, *option;
    } useless[] = {{"check", "warmup"},   {"shadow", "warmup"}, {"owners", "warmup"},
                   {"owners", "tokens"},  {"owners", "plant"},  {"shadow", "plant"},
                   {"owners", "lr"},      {"owners", "seed"},   {"owners", "deterministic"},
                   {"shadow", "cluster"}, {"check", "cluster"}};
    enum table_format f = (enum table_format)opts_get(&s->opts, "format")->u64;
    int kinds = 0;

    for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
        kinds += opts_get(&s->opts, others[k])->set ? 1 : 0;
    if (kinds > 1)
        return err_set(e, ERR_USAGE,
                       "--check, --shadow and --owners are three kinds of runs: give one");

    for (size_t k = 0; k < sizeof(useless) / sizeof(useless[0]); k++)
        if (opts_get(&s->opts, useless[k].run)->set && opts_get(&s->opts, useless[k].option)->set)
            return err_set(e, ERR_USAGE, "--%s has no use for --%s", useless[k].run,
                           useless[k].option);
    if (opts_get(&s->opts, "check")->set && f != TABLE_AS_TABLE && f != TABLE_AS_JSON)
        return err_set(e, ERR_USAGE, "--check prints --format table or json");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct opt_val *v = opts_get(&s->opts, files[i]);

        for (size_t k = 0; v->set && k < sizeof(others) / sizeof(others[0]); k++)
            if (opts_get(&s->opts, others[k])->set)
                return err_set(e, ERR_USAGE, "--%s needs the times of steps, and --%s has none",
                               files[i], others[k]);
        if (v->set && !strcmp(v->text, "-"))
            return err_set(e, ERR_USAGE, "--%s - needs a name; the result goes to standard output",
                           files[i]);
    }
    return output_check_targets(&s->opts, e);
}

/* Another profile for the prediction; who is on which node, and so what moves between nodes, has to stay. */
static int other_cluster(struct session *s, struct err *e)
{
    const char *name = opts_get(&s->opts, "cluster")->text;
    struct cluster c;
    bool one_node;

    if (!name)
        return 0;
    if (cluster_load(name, &s->arena, &c, e))
        return err_prefix(e, "--cluster");
    if (opts_get(&s->opts, "owners")->set) { /* one device after the other: no nodes */
        s->plan.cluster.device = c.device;
        s->plan.cluster.name = c.name;
        return 0;
    }
    /* all ranks of the plan on one node, before and after: who is beside whom stays as it was */
    one_node = s->plan.cluster.n_nodes == 1 && c.gpus_per_node >= s->plan.world;
    if (c.gpus_per_node != s->plan.cluster.gpus_per_node && !one_node)
        return err_set(e, ERR_INVALID,
                       "--cluster: '%.100s' has %u GPUs a node, the plan's '%.100s' has %u", c.name,
                       c.gpus_per_node, s->plan.cluster.name, s->plan.cluster.gpus_per_node);
    if (cluster_resize(&c, s->plan.cluster.n_nodes, e))
        return err_prefix(e, "--cluster");
    s->plan.cluster = c;
    return 0;
}

/* Files may lie at other places on other nodes; what is in them has to be the same. A stale plan on one node's disk shows
 * here. */
static int agree_on_content(struct session *s, struct err *e)
{
    const struct token_file *f = &s->tokens;
    cJSON *cluster = cluster_to_json(&s->plan.cluster);
    char *text = NULL, value[96], note[320];
    struct strbuf facts;
    size_t n = 0;
    int status = 0;

    strbuf_init(&facts);
    if (s->on.t.size > 1) /* else the file may be a pipe, and nobody else has one */
        status = file_read(s->opts.pos[0], JSON_MAX_BYTES, &text, &n, e);
    snprintf(value, sizeof(value), "of %zu bytes with hash %016llx", n,
             (unsigned long long)agree_hash(text, n));
    snprintf(note, sizeof(note), "('%.300s')", s->opts.pos[0]);
    agree_fact(&facts, "the plan", note, value);
    mem_free(text);
    text = json_text(cluster, false);
    snprintf(value, sizeof(value), "the one with hash %016llx",
             (unsigned long long)agree_hash(text, strlen(text)));
    snprintf(note, sizeof(note), "('%.300s')", s->plan.cluster.name);
    agree_fact(&facts, "the cluster of the prediction", note, value);
    mem_free(text);
    snprintf(value, sizeof(value), "none");
    if (f->path) {
        snprintf(value, sizeof(value), "of %llu ids with hash %016llx of what is read",
                 (unsigned long long)f->n_tokens,
                 (unsigned long long)agree_hash(f->data, f->n_looked * f->width));
        snprintf(note, sizeof(note), "('%.300s')", f->path);
    }
    agree_fact(&facts, "the file of tokens", f->path ? note : NULL, value);
    if (!status)
        status = machine_agree(&s->on, &facts, e);
    strbuf_release(&facts);
    json_free(cluster);
    return status;
}

static int session_run(struct session *s, int argc, char **argv, struct err *e)
{
    const char *plant = opts_get(&s->opts, "plant")->text;
    char with[48] = "";

    if (plant && plant_parse(plant, &s->plant, e))
        return -1;
    if (opts_positionals(&s->opts, 1, 1, "PLAN", e) || check_files(s, e) ||
        plan_load(s->opts.pos[0], &s->arena, &s->plan, e) || exec_job(&s->plan.job, e) ||
        other_cluster(s, e))
        return -1;
    s->plan.job.attention = ATTENTION_FLASH; /* what its kernels are, whatever the framework has */
    if (layout_check(&s->plan, e) || layout_lower(&s->plan, &s->arena, &s->program, e))
        return err_prefix(e, "'%s'", s->opts.pos[0]);
    if (opts_get(&s->opts, "owners")->set && s->on.t.size == 1)
        return exec_owners(
            &s->plan, &s->program, &s->on, (uint32_t)opts_get(&s->opts, "steps")->u64,
            (enum table_format)opts_get(&s->opts, "format")->u64, argc, argv, &s->out, e);
    if (opts_get(&s->opts, "owners")->set)
        return err_set(e, ERR_USAGE, "--owners plays all ranks in one process: no mpirun");
    if (s->on.t.size == 1)
        snprintf(with, sizeof(with), "; start it with mpirun -np %u", s->plan.world);
    if (s->on.t.size != s->plan.world)
        return err_set(e, ERR_INVALID, "'%s' is for %u ranks, this job has %u%s", s->opts.pos[0],
                       s->plan.world, s->on.t.size, with);
    s->o = (struct run_options){.seed = opts_get(&s->opts, "seed")->u64,
                                .ordered = opts_get(&s->opts, "deterministic")->set,
                                .lr = opts_get(&s->opts, "lr")->d,
                                .fault = plant_fault(&s->plant),
                                .faulty = s->plant.rank,
                                .on_op = on_op,
                                .on_op_ctx = s};
    if (open_tokens(s, e) ||
        plant_fits(&s->plant, &s->program, opts_get(&s->opts, "steps")->u64, e) ||
        agree_on_content(s, e))
        return -1;
    if (opts_get(&s->opts, "shadow")->set)
        return exec_shadow(
            &s->plan, &s->program, &s->on, &s->o, (uint32_t)opts_get(&s->opts, "steps")->u64,
            (enum table_format)opts_get(&s->opts, "format")->u64, argc, argv, &s->out, e);
    if (opts_get(&s->opts, "check")->set)
        return exec_check(&s->plan, &s->on, &s->o, (uint32_t)opts_get(&s->opts, "steps")->u64,
                          (enum table_format)opts_get(&s->opts, "format")->u64, argc, argv, &s->out,
                          e);
    return replay(s, argc, argv, e);
}

static int help(struct session *s)
{
    printf(
        "ballast-exec %s: replays a plan on this machine and compares it with its prediction\n\n"
        "usage: [mpirun -np N] ballast-exec PLAN [--check | --shadow | --owners] [options]\n"
        "       ballast-exec kernels [options]        kernels beside the CPU's that no step "
        "launches by "
        "itself\n"
        "       ballast-exec rates [options]          what products and Newton-Schulz reach here\n"
        "       [mpirun -np N] ballast-exec calibrate [options]\n\n"
        "--check ends with `check: bitwise equal` or, for +stock, `check: within N ulp` "
        "(status 0), or\n`check: DIFFERS ...` (status 1).\n\n",
        ballast_version);
    opts_help(stdout, &s->opts);
    return 0;
}

static int version(void)
{
    printf("ballast-exec %s\n", ballast_version);
    return 0;
}

int main(int argc, char **argv)
{
    struct session s;
    struct err e = {.code = ERR_NONE};
    int status = -1;

    signal(SIGPIPE, SIG_IGN);
    file_clean_on_signals();
    if (argc > 1 && !strcmp(argv[1], "calibrate"))
        return calibrate_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "kernels"))
        return kernels_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "rates"))
        return rates_main(argc - 1, argv + 1);
    memset(&s, 0, sizeof(s));
    machine_init(&s.on);
    arena_init(&s.arena);
    strbuf_init(&s.out);
    opts_init(&s.opts);
    opts_add(&s.opts, "Options", rows, sizeof(rows) / sizeof(rows[0]));
    opts_add(&s.opts, "Where", machine_rows, machine_n_rows);
    if (argc == 2 && !strcmp(argv[1], "--version"))
        status = version();
    else if (opts_wants_help(argc - 1, argv + 1))
        status = help(&s);
    else if (!opts_parse(&s.opts, argc - 1, argv + 1, &e) &&
             !machine_open(&s.on, "a plan", &s.opts, &e))
        status = session_run(&s, argc, argv, &e);
    if (status >= 0 && s.on.t.rank == 0 &&
        output_write(opts_get(&s.opts, "output")->text, &s.out, &e))
        status = -1;
    if (status < 0)
        status = machine_fail(&s.on, &e);
    machine_close(&s.on);
    token_file_close(&s.tokens);
    strbuf_release(&s.out);
    opts_release(&s.opts);
    arena_release(&s.arena);
    return status;
}
