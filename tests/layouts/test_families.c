/* Every family under every layout: programs hold together, whatever their layers are made of. */
#include "core/json.h"
#include "model/graph/graph.h"
#include "planner/planner.h"
#include "tests/layouts/plans.h"
#include "tests/model/families.h"

#include <stdio.h>

START_TEST(every_family_lowers_under_every_layout)
{
    static const uint32_t worlds[] = {1, 3, 8};

    for (size_t f = 0; f < N_FAMILIES; f++)
        for (uint32_t l = 0; plans_name(l); l++) {
            struct job j = plans_job();
            struct program p;
            struct plan plan;
            struct arena a;
            struct err e;

            if ((f + l) %
                5) /* every fifth, from family to family the next: large ones take a while */
                continue;
            arena_init(&a);
            plans_fit(&j, plans_name(l), worlds[f % 3], 4, (uint32_t)f);
            j.recompute = (enum recompute)(f % 3);
            plans_make(&plan, &a, families[f].config, plans_name(l), &j, worlds[f % 3], 4);
            plans_lower(&plan, &a, &p);
            MUST(program_check(&p, &e) == 0, "%s, %s: %s", families[f].name, plans_name(l), e.msg);
            arena_release(&a);
        }
}
END_TEST

/* What a class has beyond the common dimensions is in the file too: the graphs are the same. */
START_TEST(plan_files_keep_every_familys_classes)
{
    for (size_t f = 0; f < N_FAMILIES; f++) {
        struct job j = plans_job();
        struct plan plan, back; /* owners by the planner: the reader checks their loads */
        struct arena a;
        struct err e;
        cJSON *doc;
        char *text;

        if (strstr(families[f].name, "deepseek-v3") || strstr(families[f].name, "kimi"))
            continue; /* hundreds of thousands of rows; V2 has the same block */
        j.planner = "lpt-flops";
        arena_init(&a);
        plans_make(&plan, &a, families[f].config, "owner", &j, 3, 8);
        MUST(cluster_load("dgx-a100", &a, &plan.cluster, &e) == 0 &&
                 planner_plan(&plan, NULL, &a, &e) == 0,
             "%s: %s", families[f].name, e.msg);
        doc = plan_to_json(&plan);
        text = json_text(doc, false);
        MUST(plan_from_json(text, strlen(text), "p.json", &a, &back, &e) == 0, "%s: %s",
             families[f].name, e.msg);
        MUST(back.model.n_classes == plan.model.n_classes, "%s", families[f].name);
        for (uint32_t c = 0; c < plan.model.n_classes; c++) {
            struct unit_graph x, y;

            MUST(graph_build(&plan.model, c,
                             &(struct graph_batch){.micro_batch = 1, .seq_len = 4096}, DTYPE_BF16,
                             &x, &e) == 0 &&
                     graph_build(&back.model, c,
                                 &(struct graph_batch){.micro_batch = 1, .seq_len = 4096},
                                 DTYPE_BF16, &y, &e) == 0,
                 "%s", e.msg);
            MUST(x.n_ops == y.n_ops && x.forward_flops == y.forward_flops &&
                     x.backward_flops == y.backward_flops,
                 "%s: class %u differs", families[f].name, c);
        }
        mem_free(text);
        json_free(doc);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("layouts/families", every_family_lowers_under_every_layout,
           plan_files_keep_every_familys_classes)
