/* sim/flows.h - finish times of plain flows over links that they share max-min fairly, on top of sim/fluid.h.
 *
 * A flow starts, moves its bytes over all links of its path at once, and ends: no latency, no packets, no
 * dependencies. It is what simulators of networks agree on, so it is what the engine is compared with.
 *
 * The file of scenarios (JSON, sim/flows_json.c); "what" and "units" are for the reader and optional:
 *     { "what": "...", "units": "...", "scenarios": [
 *         { "id": "dumbbell", "links_Bps": { "core": 1e10, "a0": 2.5e10 },
 *           "flows": [ { "path": ["a0", "core"], "bytes": 200378, "start_s": 0, "finish_s": 8.01512e-05 } ] } ] }
 * A flow may have a "weight", 1 when absent: flows share a link in proportion to their weights (say, of how many
 * connections each is the sum). start_s is 0 when absent and rounded to picoseconds; finish_s is an expectation or a result and may be absent. The document
 * that `ballast flows --format json` prints is such a file: its own keys (format, argv, check, ...) are read over.
 */
#ifndef BALLAST_SIM_FLOWS_H
#define BALLAST_SIM_FLOWS_H

#include "core/err.h"
#include "core/json.h"
#include "core/mem.h"

#include <stdint.h>

static const double FLOWS_MIN_WEIGHT = 1e-6, FLOWS_MAX_WEIGHT = 1e6;

struct flows_link {
    const char *name;
    double bw_Bps; /* > 0 */
};

struct flows_flow {
    const uint32_t *path; /* [n_path] links; one that comes twice carries the bytes twice */
    uint32_t n_path;      /* > 0 */
    uint64_t n_bytes;     /* > 0 */
    int64_t start_ps;     /* >= 0 */
    double weight;        /* FLOWS_MIN_WEIGHT to FLOWS_MAX_WEIGHT; 0: 1 */
    double finish_s;      /* > 0; NAN: not known. flows_run() neither reads nor writes it */
};

struct flows_scenario {
    const char *id;
    uint32_t n_links, n_flows;
    const struct flows_link *links; /* [n_links] */
    struct flows_flow *flows;       /* [n_flows] */
};

struct flows_file {
    const char *what, *units; /* NULL: absent */
    uint32_t n_scenarios;
    struct flows_scenario *scenarios;
};

/* end_ps[n_flows]. ERR_INVALID when a value is out of its range (the flow or link is named). */
int flows_run(const struct flows_scenario *s, int64_t *end_ps, struct err *e);

/* All of it lives in the arena. Refuses unknown keys and links. */
int flows_read_json(const char *path, struct arena *a, struct flows_file *out, struct err *e);
int flows_parse_json(const char *name, const char *text, size_t len, struct arena *a,
                     struct flows_file *out, struct err *e);
/* what, units and scenarios as keys of an object: what is read back is what was written. */
void flows_add_json(const struct flows_file *file, cJSON *to);

#endif
