#include "cli/exec_report.h"

#include "cli/output.h"

#include <math.h>

static double error_percent(double predicted, double measured)
{
    return measured > 0 ? 100 * (predicted / measured - 1) : NAN;
}

/* ---- the step ---- */

static const struct table_col step_cols[] = {
    {"what", "what", TABLE_TEXT, 0, TABLE_AUTO},
    {"predicted_ms", "predicted ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"measured_ms", "measured ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"spread_percent", "spread %", TABLE_FIXED, 1, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
};

static void step_rows(const struct measured *m, struct table *t)
{
    for (int k = 0; k < N_ROWS; k++) {
        struct measured_spread s = measured_spread(m, &m->rows[0][k], N_ROWS);
        double predicted = measured_predicted_ms(m, k);

        table_row(t);
        table_set_str(t, "what", measured_row_name(k));
        table_set_double(t, "predicted_ms", predicted);
        table_set_double(t, "measured_ms", 1e3 * s.median);
        if (s.median > 0)
            table_set_double(t, "spread_percent", 100 * (s.max - s.min) / s.median);
        table_set_double(t, "error_percent", error_percent(predicted, 1e3 * s.median));
    }
}

/* ---- classes of operations ---- */

static const struct table_col class_cols[] = {
    {"class", "class", TABLE_TEXT, 0, TABLE_AUTO},
    {"operations", "operations", TABLE_INT, 0, TABLE_AUTO},
    {"predicted_ms", "predicted ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"measured_ms", "measured ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"min_ms", "min", TABLE_FIXED, 3, TABLE_AUTO},
    {"max_ms", "max", TABLE_FIXED, 3, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
};

/* Mean absolute error of the classes, each alike, and as a share of their measured time; without waiting. */
struct class_error {
    double mape_percent, weighted_percent;
};

static struct class_error class_rows(const struct measured *m, struct table *t)
{
    double off = 0, sum = 0, percent = 0;
    int n = 0;

    for (int k = 0; k < N_CLASSES; k++) {
        struct measured_spread s = measured_spread(m, &m->classes[0][k], N_CLASSES);
        double error = error_percent(m->predicted_s[k], s.median);

        if (!m->n_ops[k])
            continue;
        table_row(t);
        table_set_str(t, "class", measured_class_name(k));
        table_set_u64(t, "operations", m->n_ops[k]);
        table_set_double(t, "predicted_ms", 1e3 * m->predicted_s[k]);
        table_set_double(t, "measured_ms", 1e3 * s.median);
        table_set_double(t, "min_ms", 1e3 * s.min);
        table_set_double(t, "max_ms", 1e3 * s.max);
        table_set_double(t, "error_percent", error);
        if (k >= CLASS_WAITING || !(s.median > 0))
            continue;
        off += fabs(m->predicted_s[k] - s.median);
        sum += s.median;
        percent += fabs(error);
        n++;
    }
    return (struct class_error){percent / n, 100 * off / sum};
}

/* ---- memory ---- */

static const struct table_col memory_cols[] = {
    {"part", "memory", TABLE_TEXT, 0, TABLE_AUTO},
    {"predicted_mib", "predicted MiB", TABLE_FIXED, 3, TABLE_AUTO},
    {"measured_mib", "measured MiB", TABLE_FIXED, 3, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
    {"predicted_bytes", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"measured_bytes", NULL, TABLE_INT, 0, TABLE_AUTO},
};

static void memory_row(struct table *t, const char *part, const uint64_t *predicted,
                       uint64_t measured)
{
    table_row(t);
    table_set_str(t, "part", part);
    table_set_u64(t, "measured_bytes", measured);
    table_set_double(t, "measured_mib", (double)measured / 0x1p20);
    if (!predicted)
        return;
    table_set_u64(t, "predicted_bytes", *predicted);
    table_set_double(t, "predicted_mib", (double)*predicted / 0x1p20);
    table_set_double(t, "error_percent",
                     *predicted == measured ? 0
                                            : error_percent((double)*predicted, (double)measured));
}

static void memory_rows(const struct measured *m, struct table *t)
{
    const struct sim_memory *p = &m->predicted.memory;

    for (int k = 0; k < MEM_PART_N; k++)
        if (k != MEM_CONTEXT) /* outside of the allocator: in the process */
            memory_row(t, mem_part_name((enum mem_part)k), &p->parts[k], m->memory.parts[k]);
    memory_row(t, "total", &p->peak_bytes, m->memory.bytes);
    memory_row(t, "scratch", NULL, m->memory.scratch_bytes);
}

/* ---- all of it ---- */

static void as_json(const struct measured *m, struct machine *on, const struct token_file *tokens,
                    const struct table *step, const struct table *classes, struct class_error error,
                    const struct table *memory, int argc, char **argv, struct strbuf *out)
{
    cJSON *doc = output_document_of_seed("ballast-exec", 1, &m->seed, argc, argv), *o;

    json_add_str(doc, "model", m->plan->model.name);
    json_add_str(doc, "layout", m->plan->layout_full);
    json_add_str(doc, "predicted_for", m->plan->cluster.name);
    json_add_str(doc, "note", machine_note(on, &m->plan->cluster));
    json_add_u64(doc, "ranks", m->plan->world);
    json_add_u64(doc, "steps", m->n_steps);
    json_add_str(doc, "backend", on->b.lib->name);
    json_add_str(doc, "gemm", on->gemm_name);
    json_add_str(doc, "clock", on->b.cpu_clock ? "cpu" : "wall");
    json_add_str(doc, "tokens", tokens->path);
    json_add_str(doc, "verdict", m->endless_step ? "not finite" : "finite");
    json_add_u64(doc, "not_finite_from_step", m->endless_step);
    json_add_double(doc, "loss", m->loss);
    json_add_u64(doc, "peak_bytes", m->memory.bytes);
    json_add_u64(doc, "predicted_peak_bytes", m->predicted.memory.peak_bytes);
    json_add_tree(doc, "rows", table_to_json(step));
    json_add_tree(doc, "classes", table_to_json(classes));
    json_add_double(doc, "mape_percent", error.mape_percent);
    json_add_double(doc, "weighted_error_percent", error.weighted_percent);
    o = json_add_object(doc, "memory");
    json_add_u64(o, "rank", m->memory.rank);
    json_add_u64(o, "predicted_rank", m->predicted.memory.rank);
    json_add_u64(o, "resident_bytes", m->memory.resident_bytes);
    json_add_tree(o, "parts", table_to_json(memory));
    json_print(doc, true, out);
    strbuf_puts(out, "\n");
    json_free(doc);
}

static void as_text(const struct measured *m, struct machine *on, const struct token_file *tokens,
                    const struct table *step, const struct table *classes, struct class_error error,
                    const struct table *memory, enum table_format f, struct strbuf *out)
{
    const char *note = machine_note(on, &m->plan->cluster);

    strbuf_printf(out,
                  "%s under %s: %u ranks on this machine (%s, %s products%s), %llu steps; "
                  "predicted for %s\n\n",
                  m->plan->model.name, m->plan->layout_full, m->plan->world, on->b.lib->name,
                  on->gemm_name, on->b.cpu_clock ? ", CPU time" : "",
                  (unsigned long long)m->n_steps, m->plan->cluster.name);
    if (note)
        strbuf_printf(out, "note: %s\n\n", note);
    table_print(step, f, out);
    strbuf_puts(out, "\n");
    table_print(classes, f, out);
    strbuf_printf(
        out,
        "\nmean |error| of the classes %.1f %%, by time %.1f %%; measured: median, min and "
        "max of the steps, largest over ranks\n\n",
        error.mape_percent, error.weighted_percent);
    table_print(memory, f, out);
    strbuf_printf(
        out,
        "\nmemory: at the peak of the fullest rank, measured rank %u, predicted rank %u; "
        "scratch is what exec holds outside of\nthe program's buffers, which no prediction "
        "counts; a process had %.1f MiB resident at most, programs and libraries included\n",
        m->memory.rank, m->predicted.memory.rank, (double)m->memory.resident_bytes / 0x1p20);
    if (tokens->path)
        strbuf_printf(out, "tokens from %s: %llu in %llu sequences\n", tokens->path,
                      (unsigned long long)tokens->n_tokens,
                      (unsigned long long)tokens->n_sequences);
    if (m->endless_step)
        strbuf_printf(out, "the loss is not finite from step %llu on, warm-up included\n",
                      (unsigned long long)m->endless_step);
    strbuf_printf(out,
                  "loss %.6f. Operations run one after the other, here and in the prediction; a "
                  "category is its busy time.\n",
                  m->loss);
}

void exec_report(const struct measured *m, struct machine *on, const struct token_file *tokens,
                 enum table_format f, int argc, char **argv, struct strbuf *out)
{
    struct table step, classes, memory;
    struct class_error error;

    table_init(&step, step_cols, sizeof(step_cols) / sizeof(step_cols[0]));
    table_init(&classes, class_cols, sizeof(class_cols) / sizeof(class_cols[0]));
    table_init(&memory, memory_cols, sizeof(memory_cols) / sizeof(memory_cols[0]));
    step_rows(m, &step);
    error = class_rows(m, &classes);
    memory_rows(m, &memory);
    if (f == TABLE_AS_JSON)
        as_json(m, on, tokens, &step, &classes, error, &memory, argc, argv, out);
    else if (f == TABLE_AS_CSV)
        table_print(&step, f, out);
    else
        as_text(m, on, tokens, &step, &classes, error, &memory, f, out);
    table_release(&step);
    table_release(&classes);
    table_release(&memory);
}
