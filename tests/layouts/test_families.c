/* Every family under every layout: programs hold together, whatever their layers are made of. */
#include "tests/layouts/plans.h"
#include "tests/model/families.h"

#include <stdio.h>

START_TEST(every_family_lowers_under_every_layout)
{
    static const uint32_t worlds[] = {1, 3, 8};

    for (size_t f = 0; f < N_FAMILIES; f++)
        for (int l = 0; l < PLANS_N_LAYOUTS; l++) {
            struct job j = plans_job();
            struct program p;
            struct plan plan;
            struct arena a;
            struct err e;

            if (l != (int)(f % PLANS_N_LAYOUTS) && l != (int)((f + 3) % PLANS_N_LAYOUTS))
                continue; /* two a family: large ones take a while */
            arena_init(&a);
            j.recompute = (enum recompute)(f % 3);
            plans_make(&plan, &a, families[f].config, plans_layouts[l], &j, worlds[f % 3], 4);
            plans_lower(&plan, &a, &p);
            MUST(program_check(&p, &e) == 0, "%s, %s: %s", families[f].name, plans_layouts[l],
                 e.msg);
            arena_release(&a);
        }
}
END_TEST

SUITE_MAIN("layouts/families", every_family_lowers_under_every_layout)
